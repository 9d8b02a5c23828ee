import { jsonSize } from "../sizes.ts";
import type { Dsm } from "./clients.ts";
import type { DsmVolume } from "./condition.ts";
import { errors, isAnswer, NotDsm } from "./dsm-error.ts";
import { bytesOf, listed, type Row, rows, textOf, volumeIn } from "./rows.ts";

/** A LUN as DSM tells it. */
export interface Lun {
  readonly uuid: string;
  /** A number that DSM gives away again. */
  readonly number: string;
  readonly name: string;
  readonly bytes: bigint;
  readonly description: string;
  /** Something is being done with it. */
  readonly locked: boolean;
  /** Undefined where this DSM does not tell them with the LUN. */
  readonly snapshots: readonly LunSnapshot[] | undefined;
}

/** A snapshot of a LUN. */
export interface LunSnapshot {
  readonly uuid: string;
  readonly lun: string;
  readonly description: string;
  readonly takenBy: string;
  /** The size of the LUN then; 0 when DSM does not tell. */
  readonly bytes: bigint;
  readonly createdAt: Date;
  readonly ready: boolean;
}

/** A target of the system. */
export interface SanTarget {
  readonly id: string;
  readonly iqn: string;
  readonly mapped: readonly { readonly lun: string; readonly index: string }[];
  /** Addresses of the nodes that are logged in. */
  readonly sessions: readonly string[];
}

const lunApi = "SYNO.Core.ISCSI.LUN";
const targetApi = "SYNO.Core.ISCSI.Target";

/** The SAN Manager of one DSM in our terms. Methods throw as DsmClient.call. */
export class San {
  readonly #dsm: Dsm;

  constructor(dsm: Dsm) {
    this.#dsm = dsm;
  }

  /** Every LUN of the system: a filter by type would hide some. With their snapshots only where they are wanted. */
  async luns(signal: AbortSignal, withSnapshots = false): Promise<readonly Lun[]> {
    const additional = ["status", "is_action_locked", ...(withSnapshots ? ["snapshots"] : [])];
    return (await listed(() => this.#call(lunApi, "list", { additional }, signal), "luns")).map(lunOf);
  }

  async targets(signal: AbortSignal): Promise<readonly SanTarget[]> {
    const additional = ["mapped_lun", "status", "acls", "connected_sessions"];
    return (await listed(() => this.#call(targetApi, "list", { additional }, signal), "targets")).map(targetOf);
  }

  /** The snapshots of one LUN; none when it is gone. */
  async snapshots(lun: string, signal: AbortSignal): Promise<readonly LunSnapshot[]> {
    try {
      const ask = () => this.#call(lunApi, "list_snapshot", { src_lun_uuid: lun }, signal);
      return (await listed(ask, "snapshots")).map(row => snapshotOf(lun, row));
    } catch (error) {
      if (isAnswer(error, errors.noLun)) return [];
      throw error;
    }
  }

  /** `fields`: what a template says. */
  async createLun(fields: Row, name: string, location: string, bytes: bigint, signal: AbortSignal): Promise<void> {
    await this.#call(lunApi, "create", { ...fields, name, location, size: jsonSize(bytes) }, signal);
  }

  async cloneLun(lun: string, name: string, location: string, description: string, signal: AbortSignal): Promise<void> {
    const params = { src_lun_uuid: lun, dst_lun_name: name, dst_location: location, is_same_pool: true, description };
    await this.#call(lunApi, "clone", params, signal);
  }

  async cloneSnapshot(
    { lun, uuid }: LunSnapshot,
    name: string,
    description: string,
    signal: AbortSignal,
  ): Promise<void> {
    const params = { src_lun_uuid: lun, snapshot_uuid: uuid, cloned_lun_name: name, description };
    await this.#call(lunApi, "clone_snapshot", params, signal);
  }

  async resizeLun(lun: string, bytes: bigint, signal: AbortSignal): Promise<void> {
    await this.#call(lunApi, "set", { uuid: lun, new_size: jsonSize(bytes) }, signal);
  }

  async renameLun(lun: string, name: string, signal: AbortSignal): Promise<void> {
    await this.#call(lunApi, "set", { uuid: lun, new_name: name }, signal);
  }

  /** Asks for the removal, which goes on behind the answer. Success when there is none. */
  async deleteLun(lun: string, signal: AbortSignal): Promise<void> {
    const params = { uuid: "", uuids: [lun], is_soft_feas_ignored: true };
    await unlessGone(this.#call(lunApi, "delete", params, signal), errors.noLun);
  }

  async mapLun(lun: string, target: string, signal: AbortSignal): Promise<void> {
    await this.#call(lunApi, "map_target", { uuid: lun, target_ids: [Number(target)] }, signal);
  }

  /** The id of the new target. `fields`: what a template says. */
  async createTarget(fields: Row, name: string, iqn: string, signal: AbortSignal): Promise<string> {
    const id = textOf((await this.#call(targetApi, "create", { ...fields, name, iqn }, signal))["target_id"]);
    if (!/^\d+$/.test(id)) throw new NotDsm("DSM has answered without the id of the new target");
    return id;
  }

  /** Success when there is none. */
  async deleteTarget(target: string, signal: AbortSignal): Promise<void> {
    await unlessGone(this.#call(targetApi, "delete", { target_id: target }, signal), errors.noTarget);
  }

  async takeSnapshot(lun: string, fields: Row, signal: AbortSignal): Promise<void> {
    await this.#call(lunApi, "take_snapshot", { ...fields, src_lun_uuid: lun }, signal);
  }

  /** Success when there is none. */
  async deleteSnapshot(snapshot: string, signal: AbortSignal): Promise<void> {
    const params = { snapshot_uuid: snapshot, deleted_by: "csimux" };
    await unlessGone(this.#call(lunApi, "delete_snapshot", params, signal), errors.noSnapshot);
  }

  /** Free bytes of a volume of DSM. */
  async free(location: string, signal: AbortSignal): Promise<bigint> {
    return (await this.volume(location, signal)).free;
  }

  /** A volume of DSM. */
  async volume(location: string, signal: AbortSignal): Promise<DsmVolume> {
    return volumeIn(await this.#call("SYNO.Core.Storage.Volume", "get", { volume_path: location }, signal));
  }

  close(): Promise<void> {
    return this.#dsm.release();
  }

  async #call(api: string, method: string, params: Row, signal: AbortSignal): Promise<Row> {
    return (await this.#dsm.call({ api, method, params }, signal)) as Row;
  }
}

async function unlessGone(work: Promise<unknown>, code: number): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isAnswer(error, code)) throw error;
  }
}

function lunOf(row: Row): Lun {
  const uuid = textOf(row["uuid"]);
  const snapshots = Array.isArray(row["snapshots"]) ? rows(row, "snapshots") : undefined;
  return {
    uuid,
    number: textOf(row["lun_id"]),
    name: textOf(row["name"]),
    bytes: bytesOf(row["size"]),
    description: textOf(row["description"]),
    locked: row["is_action_locked"] === true,
    snapshots: snapshots?.map(each => snapshotOf(uuid, each)),
  };
}

function snapshotOf(lun: string, row: Row): LunSnapshot {
  const status = row["status"];
  const type = typeof status === "object" && status !== null ? textOf((status as Row)["type"]) : textOf(status);
  return {
    uuid: textOf(row["uuid"]),
    lun,
    description: textOf(row["description"]),
    takenBy: textOf(row["taken_by"]),
    bytes: bytesOf(row["total_size"]),
    createdAt: new Date(Number(bytesOf(row["create_time"] ?? row["time"])) * 1000),
    ready: type === "" || type === "Healthy",
  };
}

const targetOf = (row: Row): SanTarget => ({
  id: textOf(row["target_id"]),
  iqn: textOf(row["iqn"]),
  mapped: rows(row, "mapped_luns").map(each => ({
    lun: textOf(each["lun_uuid"]),
    index: textOf(each["mapping_index"]),
  })),
  sessions: rows(row, "connected_sessions").map(each => textOf(each["ip"]) || textOf(each["iqn"])),
});

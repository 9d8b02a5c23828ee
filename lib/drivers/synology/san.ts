import { jsonSize } from "../sizes.ts";
import type { Dsm, Row } from "./client.ts";
import { DsmError, errors, isAnswer, isNoLun, NotDsm, unless } from "./dsm-error.ts";
import { bytesOf, listed, rows, textOf } from "./rows.ts";

/** A LUN as DSM reports it. */
export interface Lun {
  readonly uuid: string;
  /** A number, which DSM reuses. */
  readonly number: string;
  readonly name: string;
  readonly bytes: bigint;
  readonly description: string;
  /** DSM is changing it. */
  readonly locked: boolean;
  /** Undefined if the listing did not include them. */
  readonly snapshots: readonly LunSnapshot[] | undefined;
}

/** A snapshot of a LUN. */
export interface LunSnapshot {
  readonly uuid: string;
  readonly lun: string;
  readonly description: string;
  readonly takenBy: string;
  /** The size of the LUN at that time; 0 if unknown. */
  readonly bytes: bigint;
  readonly createdAt: Date;
  readonly ready: boolean;
}

/** A target of the system. */
export interface SanTarget {
  readonly id: string;
  readonly name: string;
  readonly iqn: string;
  readonly mapped: readonly { readonly lun: string; readonly index: string }[];
  /** Addresses of the nodes logged in. */
  readonly sessions: readonly string[];
  /** DSM says that nodes log in without CHAP. */
  readonly isOpen: boolean;
}

const lunApi = "SYNO.Core.ISCSI.LUN";
const targetApi = "SYNO.Core.ISCSI.Target";

/** The SAN Manager of one DSM. Methods throw as Dsm.call. */
export class San {
  readonly dsm: Dsm;

  constructor(dsm: Dsm) {
    this.dsm = dsm;
  }

  /** All LUNs of the system (a filter by type would hide some), with their snapshots if requested. */
  async luns(signal: AbortSignal, withSnapshots = false): Promise<readonly Lun[]> {
    const additional = ["status", "is_action_locked", ...(withSnapshots ? ["snapshot_info"] : [])];
    return (await listed(() => this.#call(lunApi, "list", { additional }, signal), "luns")).map(lunOf);
  }

  async targets(signal: AbortSignal): Promise<readonly SanTarget[]> {
    const additional = ["mapped_lun", "status", "acls", "connected_sessions"];
    return (await listed(() => this.#call(targetApi, "list", { additional }, signal), "targets")).map(targetOf);
  }

  /** The snapshots of one LUN; none if it does not exist. */
  async snapshots(lun: string, signal: AbortSignal): Promise<readonly LunSnapshot[]> {
    const ask = () => this.#call(lunApi, "list_snapshot", { src_lun_uuid: lun }, signal);
    return (await listed(ask, "snapshots").catch(unless(isNoLun, []))).map(row => snapshotOf(lun, row));
  }

  /** `fields` come from a template. */
  async createLun(fields: Row, name: string, location: string, bytes: bigint, signal: AbortSignal): Promise<void> {
    await this.#call(lunApi, "create", { ...fields, name, location, size: jsonSize(bytes) }, signal);
  }

  async cloneLun(lun: string, name: string, location: string, description: string, signal: AbortSignal): Promise<void> {
    const params = { src_lun_uuid: lun, dst_lun_name: name, dst_location: location, is_same_pool: true, description };
    await this.#call(lunApi, "clone", params, signal);
  }

  async cloneSnapshot(
    { lun, uuid }: Pick<LunSnapshot, "lun" | "uuid">,
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

  /** Starts the removal, which continues after the answer. Succeeds if the LUN does not exist. */
  async deleteLun(lun: string, signal: AbortSignal): Promise<void> {
    const params = { uuid: "", uuids: [lun], is_soft_feas_ignored: true };
    await this.#call(lunApi, "delete", params, signal).catch(unless(isNoLun, undefined));
  }

  async mapLun(lun: string, target: string, signal: AbortSignal): Promise<void> {
    await this.#call(lunApi, "map_target", { uuid: lun, target_ids: [Number(target)] }, signal);
  }

  /** Returns the id of the new target. `fields` come from a template. */
  async createTarget(fields: Row, name: string, iqn: string, signal: AbortSignal): Promise<string> {
    const id = textOf((await this.#call(targetApi, "create", { ...fields, name, iqn }, signal))["target_id"]);
    if (!/^\d+$/.test(id)) throw new NotDsm("DSM answered without the id of the new target");
    return id;
  }

  /** Succeeds if the target does not exist. */
  async deleteTarget(target: string, signal: AbortSignal): Promise<void> {
    const isGone = (error: unknown) => isAnswer(error, errors.noTarget);
    await this.#call(targetApi, "delete", { target_id: target }, signal).catch(unless(isGone, undefined));
  }

  /** `fields` come from a template. Says that the snapshot is neither locked nor consistent unless they do, as every client of DSM does. */
  async takeSnapshot(lun: string, fields: Row, signal: AbortSignal): Promise<void> {
    const flags = { is_locked: false, is_app_consistent: false };
    await this.#call(lunApi, "take_snapshot", { ...flags, ...fields, src_lun_uuid: lun }, signal);
  }

  /** Succeeds if the snapshot does not exist. */
  async deleteSnapshot(snapshot: string, signal: AbortSignal): Promise<void> {
    const params = { snapshot_uuid: snapshot, deleted_by: "csimux" };
    const isGone = (error: unknown) => isAnswer(error, errors.noSnapshot);
    const answer = await this.#call(lunApi, "delete_snapshot", params, signal).catch(unless(isGone, []));
    // DSM can report success, with the numbers of what it has not deleted (N4S4/synology-api 50b4343, snapshot.py).
    const code = failuresIn(answer).find(each => each !== errors.noSnapshot);
    if (code !== undefined) throw new DsmError(lunApi, "delete_snapshot", code);
  }

  #call(api: string, method: string, params: Row, signal: AbortSignal): Promise<Row> {
    return this.dsm.call({ api, method, params }, signal);
  }
}

/** The numbers of an answer that lists failures: `[{<uuid>: 18990540}]`. */
const failuresIn = (answer: unknown): readonly number[] =>
  Array.isArray(answer) ? answer.flatMap(each => Object.values((each ?? {}) as Row).map(Number)) : [];

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
  name: textOf(row["name"]),
  iqn: textOf(row["iqn"]),
  mapped: rows(row, "mapped_luns").map(each => ({
    lun: textOf(each["lun_uuid"]),
    index: textOf(each["mapping_index"]),
  })),
  sessions: rows(row, "connected_sessions").map(each => textOf(each["ip"]) || textOf(each["iqn"])),
  isOpen: textOf(row["auth_type"]) === "0",
});

import type { Dsm } from "./clients.ts";
import type { DsmVolume } from "./condition.ts";
import { isNoShare } from "./dsm-error.ts";
import { listed, type Row, textOf, volumeIn } from "./rows.ts";

/** A shared folder as DSM tells it. */
export interface SharedFolder {
  readonly name: string;
  /** The volume of DSM that it is on, such as /volume1. */
  readonly location: string;
  readonly description: string;
  /** Its quota in bytes; 0 without one. */
  readonly bytes: bigint;
}

/** A snapshot of a shared folder. */
export interface FolderSnapshot {
  /** When it was taken, in DSM's words: it is called by this. */
  readonly time: string;
  readonly description: string;
}

/** Who may mount a folder over NFS, as DSM has it. */
export interface NfsRule {
  readonly client: string;
  readonly privilege: "rw" | "ro";
  readonly root_squash: string;
  readonly async: boolean;
  readonly insecure: boolean;
  readonly crossmnt: boolean;
  readonly security_flavor: Readonly<Record<string, boolean>>;
}

const shareApi = "SYNO.Core.Share";
const snapshotApi = "SYNO.Core.Share.Snapshot";
const nfsApi = "SYNO.Core.FileServ.NFS.SharePrivilege";

/** DSM's unit of quotas. */
export const mebibyte = 1n << 20n;

/** The shared folders of one DSM in our terms. Methods throw as DsmClient.call. */
export class Folders {
  readonly #dsm: Dsm;

  constructor(dsm: Dsm) {
    this.#dsm = dsm;
  }

  async list(signal: AbortSignal): Promise<readonly SharedFolder[]> {
    const additional = ["share_quota", "support_snapshot"];
    return (await listed(() => this.#call(shareApi, "list", { additional }, signal), "shares")).map(row => ({
      name: textOf(row["name"]),
      location: textOf(row["vol_path"]),
      description: textOf(row["desc"]),
      bytes: BigInt(/^\d+$/.exec(textOf(row["quota_value"]))?.[0] ?? 0) * mebibyte,
    }));
  }

  async create({ name, location, description, bytes }: SharedFolder, signal: AbortSignal): Promise<void> {
    const shareinfo = {
      ...{ name, vol_path: location, desc: description, share_quota: Number(bytes / mebibyte) },
      ...{ enable_share_cow: true, enable_recycle_bin: false, recycle_bin_admin_only: true, encryption: 0 },
    };
    await this.#call(shareApi, "create", { name, shareinfo }, signal);
  }

  /** From the folder `origin`, or from a snapshot of it. */
  async clone(
    { name, location, description }: Omit<SharedFolder, "bytes">,
    origin: string,
    snapshot: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const shareinfo = { name, vol_path: location, desc: description, name_org: origin, enable_recycle_bin: false };
    await this.#call(shareApi, "clone", { name, snapshot, shareinfo }, signal);
  }

  /** Changes description or quota. */
  async set(
    { name, location }: SharedFolder,
    to: { readonly description?: string; readonly bytes?: bigint },
    signal: AbortSignal,
  ): Promise<void> {
    const shareinfo = {
      ...{ name, vol_path: location },
      ...(to.description !== undefined && { desc: to.description }),
      ...(to.bytes !== undefined && { share_quota: Number(to.bytes / mebibyte) }),
    };
    await this.#call(shareApi, "set", { name, shareinfo }, signal);
  }

  /** Success when there is none. */
  async delete(name: string, signal: AbortSignal): Promise<void> {
    await this.#call(shareApi, "delete", { name: [name] }, signal).catch((error: unknown) => {
      if (!isNoShare(error)) throw error;
    });
  }

  /** None where the folder is gone. */
  async snapshots(name: string, signal: AbortSignal): Promise<readonly FolderSnapshot[]> {
    const params = { name, additional: ["desc", "lock", "schedule_snapshot", "ruuid"] };
    try {
      const ask = async () =>
        (await this.#dsm.call({ api: snapshotApi, method: "list", version: "2", params }, signal)) as Row;
      return (await listed(ask, "snapshots")).map(row => ({
        time: textOf(row["time"]),
        description: textOf(row["desc"]),
      }));
    } catch (error) {
      if (isNoShare(error)) return [];
      throw error;
    }
  }

  async takeSnapshot(name: string, description: string, signal: AbortSignal): Promise<void> {
    await this.#call(snapshotApi, "create", { name, snapinfo: { desc: description, lock: true } }, signal);
  }

  async deleteSnapshot(name: string, time: string, signal: AbortSignal): Promise<void> {
    await this.#call(snapshotApi, "delete", { name, snapshots: [time] }, signal).catch((error: unknown) => {
      if (!isNoShare(error)) throw error;
    });
  }

  async nfsRules(name: string, signal: AbortSignal): Promise<readonly Row[]> {
    return await listed(() => this.#call(nfsApi, "load", { share_name: name }, signal), "rule");
  }

  async setNfsRules(name: string, rule: readonly NfsRule[], signal: AbortSignal): Promise<void> {
    await this.#call(nfsApi, "save", { share_name: name, rule }, signal);
  }

  /** Lets accounts of DSM write. `kind`: users or groups. */
  async permit(
    name: string,
    kind: "local_user" | "local_group",
    accounts: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const permissions = accounts.map(each => ({ name: each, is_readonly: false, is_writable: true, is_deny: false }));
    await this.#call("SYNO.Core.Share.Permission", "set", { name, user_group_type: kind, permissions }, signal);
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

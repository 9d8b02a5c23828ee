import { setTimeout as pause } from "node:timers/promises";
import type { Dsm, DsmCall, Row } from "./client.ts";
import { DsmError, isNoShare, isShareBusy, isShareUnsettled, unless } from "./dsm-error.ts";
import { listed, rows, textOf } from "./rows.ts";

/** A shared folder as DSM reports it. */
export interface SharedFolder {
  readonly name: string;
  /** Tells it from every other folder, also from a later one of the same name; empty if DSM does not show it. */
  readonly uuid: string;
  /** The volume of DSM that it is on, such as /volume1. */
  readonly location: string;
  readonly description: string;
  /** Its quota in bytes; 0 if it has none. */
  readonly bytes: bigint;
}

/** A shared folder to make. */
export type NewFolder = Omit<SharedFolder, "uuid">;

/** A snapshot of a shared folder. */
export interface FolderSnapshot {
  /** Its time in DSM's form, which is also its name. */
  readonly time: string;
  readonly description: string;
}

/** Permission of a host to mount a folder over NFS, in DSM's form. */
export interface NfsRule {
  readonly client: string;
  readonly privilege: "rw" | "ro";
  readonly root_squash: string;
  readonly async: boolean;
  readonly insecure: boolean;
  readonly crossmnt: boolean;
  readonly security_flavor: Readonly<Record<string, boolean>>;
}

/** DSM's words for its users and its groups. */
export type AccountKind = "local_user" | "local_group";

/** Throws if the folder that is to be changed is no longer among those of the system as it was read. */
export type StillSame = (folders: readonly SharedFolder[]) => void;

const shareApi = "SYNO.Core.Share";
const snapshotApi = "SYNO.Core.Share.Snapshot";
const permissionApi = "SYNO.Core.Share.Permission";
const nfsApi = "SYNO.Core.FileServ.NFS.SharePrivilege";

/** How often a change is tried while DSM is busy (about three seconds), and if it refuses it without a reason (0.6 s). */
const busyTries = 6;
const unsettledTries = 3;

/** DSM has no list of connections, not this one, or not for this account. */
const hidesConnections: readonly number[] = [102, 103, 104, 105];

/** DSM's unit of quotas. */
export const mebibyte = 1n << 20n;

const listing: DsmCall = {
  ...{ api: shareApi, method: "list" },
  params: { additional: ["share_quota", "support_snapshot"] },
};

const folderOf = (row: Row): SharedFolder => ({
  name: textOf(row["name"]),
  uuid: textOf(row["uuid"]),
  location: textOf(row["vol_path"]),
  description: textOf(row["desc"]),
  bytes: BigInt(/^\d+$/.exec(textOf(row["quota_value"]))?.[0] ?? 0) * mebibyte,
});

/** The shared folders of one DSM. Methods throw as Dsm.call. */
export class Folders {
  readonly dsm: Dsm;

  constructor(dsm: Dsm) {
    this.dsm = dsm;
  }

  async list(signal: AbortSignal): Promise<readonly SharedFolder[]> {
    return (await listed(() => this.dsm.call(listing, signal), "shares")).map(folderOf);
  }

  async create({ name, location, description, bytes }: NewFolder, signal: AbortSignal): Promise<void> {
    const shareinfo = {
      ...{ name, vol_path: location, desc: description, share_quota: Number(bytes / mebibyte) },
      ...{ enable_share_cow: true, enable_recycle_bin: false, recycle_bin_admin_only: true, encryption: 0 },
    };
    await this.#change(shareApi, "create", { name, shareinfo }, signal);
  }

  /** Clones the folder `origin`, or a snapshot of it. */
  async clone(
    { name, location, description }: Omit<NewFolder, "bytes">,
    origin: string,
    snapshot: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const shareinfo = { name, vol_path: location, desc: description, name_org: origin, enable_recycle_bin: false };
    await this.#change(shareApi, "clone", { name, snapshot, shareinfo }, signal);
  }

  /** Changes the description or the quota. Throws what `still` throws. */
  async set(
    { name, location }: SharedFolder,
    to: { readonly description?: string; readonly bytes?: bigint },
    still: StillSame,
    signal: AbortSignal,
  ): Promise<void> {
    const shareinfo = {
      ...{ name, vol_path: location },
      ...(to.description !== undefined && { desc: to.description }),
      ...(to.bytes !== undefined && { share_quota: Number(to.bytes / mebibyte) }),
    };
    await this.#change(shareApi, "set", { name, shareinfo }, signal, still);
  }

  /** Throws what `still` throws. Succeeds if the folder does not exist any more. */
  async delete(name: string, still: StillSame, signal: AbortSignal): Promise<void> {
    let isGone = false;
    const check: StillSame = folders => {
      isGone = !folders.some(each => each.name === name);
      still(folders);
    };
    const isFine = (error: unknown) => isGone || isNoShare(error);
    await this.#change(shareApi, "delete", { name: [name] }, signal, check).catch(unless(isFine, undefined));
  }

  /** None if the folder does not exist. */
  async snapshots(name: string, signal: AbortSignal): Promise<readonly FolderSnapshot[]> {
    const params = { name, additional: ["desc", "lock", "schedule_snapshot", "ruuid"] };
    const ask = () => this.#call(snapshotApi, "list", params, signal, "2");
    const all = await listed(ask, "snapshots").catch(unless(isNoShare, []));
    return all.map(row => ({ time: textOf(row["time"]), description: textOf(row["desc"]) }));
  }

  async takeSnapshot(name: string, description: string, signal: AbortSignal): Promise<void> {
    await this.#call(snapshotApi, "create", { name, snapinfo: { desc: description, lock: true } }, signal);
  }

  async deleteSnapshot(name: string, time: string, signal: AbortSignal): Promise<void> {
    const deleted = this.#call(snapshotApi, "delete", { name, snapshots: [time] }, signal);
    await deleted.catch(unless(isNoShare, undefined));
  }

  async nfsRules(name: string, signal: AbortSignal): Promise<readonly Row[]> {
    return await listed(() => this.#call(nfsApi, "load", { share_name: name }, signal), "rule");
  }

  /** Throws what `still` throws. */
  async setNfsRules(
    name: string,
    rule: readonly NfsRule[],
    signal: AbortSignal,
    still: StillSame | undefined = undefined,
  ): Promise<void> {
    await this.#change(nfsApi, "save", { share_name: name, rule }, signal, still);
  }

  /** Whether of all accounts but administrators exactly these may use a folder, and write. */
  async isPermitted(
    name: string,
    kind: AccountKind,
    accounts: readonly string[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const ask = () => this.#call(permissionApi, "list", { name, user_group_type: kind }, signal);
    const rights = (row: Row) => ["is_writable", "is_readonly", "is_deny"].filter(right => row[right] === true).join();
    const isNamed = ({ name: account }: Row) => accounts.includes(textOf(account));
    const held = (await listed(ask, "items")).filter(row => isNamed(row) || (rights(row) !== "" && !row["is_admin"]));
    return held.length === accounts.length && held.every(row => isNamed(row) && rights(row) === "is_writable");
  }

  /** Allows accounts of DSM, users or groups, to write. */
  async permit(name: string, kind: AccountKind, accounts: readonly string[], signal: AbortSignal): Promise<void> {
    const permissions = accounts.map(each => ({ name: each, is_readonly: false, is_writable: true, is_deny: false }));
    await this.#change(permissionApi, "set", { name, user_group_type: kind, permissions }, signal);
  }

  /**
   * The accounts that use a folder over SMB, with their addresses. DSM names the folders of each SMB session; of NFS it tells nothing. None
   * if DSM does not show its connections.
   */
  async smbUsers(name: string, signal: AbortSignal): Promise<readonly string[]> {
    const ask = () => this.#call("SYNO.Core.CurrentConnection", "list", {}, signal);
    const isHidden = (error: unknown) => error instanceof DsmError && hidesConnections.includes(error.code);
    const items = await listed(ask, "items").catch(unless(isHidden, []));
    return items.flatMap(row => {
      const folders = textOf(row["descr"])
        .split(",")
        .map(each => each.trim().toLowerCase());
      const isSmb = /^(?:SMB|CIFS)/i.test(textOf(row["type"]));
      return isSmb && folders.includes(name.toLowerCase()) ? [`${textOf(row["who"])} at ${textOf(row["from"])}`] : [];
    });
  }

  /**
   * A change of shared folders: one at a time, and repeated for a while if DSM is busy with another one and did nothing. DSM knows a folder by
   * its name alone, and while a change waits or is repeated, another controller may have made another one, so it is read right before.
   */
  async #change(api: string, method: string, params: Row, signal: AbortSignal, still?: StillSame): Promise<Row> {
    const proof = still && { read: listing, check: (answer: Row) => still(rows(answer, "shares").map(folderOf)) };
    const call: DsmCall = { api, method, params, alone: true, ...(proof && { proof }) };
    for (let tried = 1; ; tried++) {
      try {
        return await this.dsm.call(call, signal);
      } catch (error) {
        const again = isShareBusy(error) ? tried < busyTries : isShareUnsettled(error) && tried < unsettledTries;
        if (!again || signal.aborted) throw error;
        await pause(Math.min(100 * 2 ** tried, 1000));
      }
    }
  }

  #call(api: string, method: string, params: Row, signal: AbortSignal, version?: string): Promise<Row> {
    return this.dsm.call({ api, method, params, ...(version !== undefined && { version }) }, signal);
  }
}

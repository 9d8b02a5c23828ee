import { setTimeout as pause } from "node:timers/promises";
import type { Call } from "../../core/call.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import type { Source } from "../driver.ts";
import { type FailureContext, throwIfCancelled } from "../failure.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { StoredVolume } from "../store.ts";
import { explainDsm } from "./dsm-error.ts";
import { type FolderMark, FolderNames } from "./folder-names.ts";
import type { Folders, SharedFolder, StillSame } from "./folders.ts";
import { isUnique, type LunName, type LunNames, parseMark } from "./names.ts";
import type { Lun, LunSnapshot, San, SanTarget } from "./san.ts";

/** Owners whose volumes belong to a connection: its instance, and itself for volumes made before it had an `instance_id`. */
export const ownersOf = ({ instanceId, connection }: ConnectionIdentity): readonly [string, ...string[]] =>
  instanceId === undefined ? [connection] : [instanceId, connection];

/** Equals no real source: stands for a source other than the requested one. */
export const unknownSource: Source = { kind: "volume", id: "" };

/**
 * Calls `look` at growing intervals until it returns a value; undefined after `limitMs`. The limit is short because the
 * caller waits: what takes longer is "aborted", and the retry continues.
 */
export async function until<T>(
  subject: FailureContext,
  look: () => Promise<T | undefined>,
  limitMs: number,
  call: Call,
): Promise<T | undefined> {
  const end = performance.now() + limitMs;
  for (let wait = 20; ; wait = Math.min(wait * 2, 1000)) {
    const found = await look();
    if (found !== undefined || performance.now() + wait > end) return found;
    await pause(wait);
    throwIfCancelled(subject, call);
  }
}

/** A LUN that is a volume or is becoming one. */
export interface LunVolume extends StoredVolume {
  readonly lun: Lun;
  /** The targets of the system, if they have just been read with it. */
  readonly targets?: readonly SanTarget[];
}

/** A LUN with a name in the form of this connection's volumes. */
export interface NamedLun extends LunName {
  readonly lun: Lun;
}

/** Who created a LUN. */
export type Maker = "this connection" | "democratic-csi" | "unknown";

/** The LUNs of one connection: their names and owners. */
export class LunContext implements FailureContext {
  readonly explain = explainDsm;
  readonly connection: string;
  /** The owner recorded on new volumes. */
  readonly owner: string;
  readonly #owners: readonly string[];
  readonly san: San;
  readonly names: LunNames;
  /** The volume of DSM, such as /volume1. */
  readonly location: string;
  readonly #maxIdBytes: number;

  constructor(identity: ConnectionIdentity, san: San, names: LunNames, location: string) {
    this.#maxIdBytes = identity.maxIdBytes;
    this.connection = identity.connection;
    this.#owners = ownersOf(identity);
    [this.owner] = ownersOf(identity);
    this.san = san;
    this.names = names;
    this.location = location;
  }

  error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }

  /** The current LUNs and targets of the system. */
  async look(call: Call): Promise<{ readonly luns: readonly Lun[]; readonly targets: readonly SanTarget[] }> {
    const [luns, targets] = await Promise.all([this.san.luns(call.signal), this.san.targets(call.signal)]);
    return { luns, targets };
  }

  /** The LUNs with names in the form of volumes of this connection. */
  named(luns: readonly Lun[]): readonly NamedLun[] {
    return luns.flatMap(lun => {
      const parts = this.names.parse(lun.name);
      return parts ? [{ ...parts, lun }] : [];
    });
  }

  /**
   * The target of a volume's LUN: the one that it is mapped to, also with the IQN that an earlier file has given it, else the one with the name that
   * only this LUN can have.
   */
  targetOf(id: string, lun: string, targets: readonly SanTarget[]): SanTarget | undefined {
    const named = targets.filter(({ iqn }) => this.names.isTarget(id, iqn));
    const own = this.names.taggedIqn(id, lun).toLowerCase();
    const leads = ({ mapped }: SanTarget) => mapped.some(each => each.lun === lun);
    return (
      named.find(leads) ??
      targets.find(each => each.name === this.names.taggedName(id, lun) && leads(each)) ??
      named.find(({ iqn }) => iqn.toLowerCase() === own)
    );
  }

  /** democratic-csi leaves no mark: an unmarked LUN is its work only if it is mapped to the target of the same name. */
  maker({ lun, tag, id }: NamedLun, targets: readonly SanTarget[]): Maker {
    if (tag) return this.names.isOwn(tag) ? "this connection" : "unknown";
    const mark = parseMark(lun.description);
    if (mark) return this.#owners.includes(mark.owner) ? "this connection" : "unknown";
    const named = targets.filter(({ iqn }) => this.names.isTarget(id, iqn));
    const target = this.targetOf(id, lun.uuid, named);
    return target?.mapped.some(each => each.lun === lun.uuid) ? "democratic-csi" : "unknown";
  }

  /** The volume of a LUN; `id` in the spelling of the caller. */
  asset(named: NamedLun, id: string, targets: readonly SanTarget[]): LunVolume {
    const { lun, state, tag } = named;
    const target = this.targetOf(id, lun.uuid, targets);
    const mapped = target?.mapped.find(each => each.lun === lun.uuid);
    const source = parseMark(lun.description)?.source;
    return {
      id,
      lun,
      name: undefined,
      bytes: lun.bytes,
      source: source && tag?.source === this.names.sourceTag(source) ? source : undefined,
      notes: target && mapped ? { iqn: target.iqn, lun: mapped.index } : {},
      finished: state === "whole",
    };
  }

  /** Throws "failed-precondition" for a LUN of this id with another prefix or suffix, which an earlier file has given it. */
  refuseOtherwise(id: string, luns: readonly Lun[]): void {
    const isMarked = ({ description }: Lun) => this.#owners.includes(parseMark(description)?.owner ?? "");
    const found = luns.find(lun => this.names.isOtherwise(id, lun.name, isMarked(lun)));
    if (!found) return;
    const text = `the LUN "${found.name}" is volume "${id}" with another namePrefix or nameSuffix, and is kept; restore them in the file, or rename or delete it in SAN Manager`;
    throw this.error("failed-precondition", text);
  }

  /** The id of a snapshot in democratic-csi's form; with the LUN's number if the UUID would make it too long. */
  snapshotId(lun: Lun, { uuid }: LunSnapshot): string {
    const id = `/lun/${lun.uuid}/${uuid}`;
    return id.length <= this.#maxIdBytes ? id : `/lun/${lun.number}/${uuid}`;
  }

  /** Whether CSI took a snapshot. Others, such as those of DSM's schedule, are part of their LUN. */
  isCsi({ takenBy }: LunSnapshot): boolean {
    return takenBy.startsWith("csimux:") || takenBy === "democratic-csi";
  }

  /** The snapshots of a LUN, requested separately if its listing did not include them. */
  async snapshots(lun: Lun, call: Call): Promise<readonly LunSnapshot[]> {
    return lun.snapshots ?? this.san.snapshots(lun.uuid, call.signal);
  }
}

/** A shared folder that is a volume or is becoming one. */
export interface FolderVolume extends StoredVolume {
  readonly folder: SharedFolder;
  readonly mark: FolderMark;
}

/** The shared folders of one connection. */
export class FolderContext implements FailureContext {
  readonly explain = explainDsm;
  readonly connection: string;
  readonly names: FolderNames;
  readonly folders: Folders;
  /** The volume of DSM, such as /volume1. */
  readonly location: string;

  constructor(identity: ConnectionIdentity, folders: Folders, prefix: string, location: string) {
    this.connection = identity.connection;
    this.folders = folders;
    this.location = location;
    this.names = new FolderNames(prefix, ownersOf(identity), identity.maxIdBytes);
  }

  error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }

  /** The folder with the name of this volume, by any creator. */
  async folder(id: string, call: Call): Promise<SharedFolder | undefined> {
    if (!this.names.isId(id)) return undefined;
    const name = this.names.share(id);
    return (await this.folders.list(call.signal)).find(each => each.name.toLowerCase() === name);
  }

  /** The folder of this volume with another prefix, which an earlier file has given it. */
  async otherwise(id: string, call: Call): Promise<SharedFolder | undefined> {
    if (!isUnique(id)) return undefined;
    const isIt = ({ name, description }: SharedFolder) => {
      const mark = this.names.parse(description);
      const isNamed = name.toLowerCase().endsWith(id) && name.toLowerCase() !== this.names.share(id);
      return mark !== undefined && mark.state !== "del" && isNamed;
    };
    return (await this.folders.list(call.signal)).find(isIt);
  }

  /** Throws "aborted" unless the folder is what was read: another controller may have finished or expanded it, or removed it and made another one. */
  unchanged(id: string, { uuid, description, bytes }: SharedFolder): StillSame {
    const name = this.names.share(id);
    return folders => {
      const now = folders.find(each => each.name.toLowerCase() === name);
      if (now?.uuid === uuid && now.description === description && now.bytes === bytes) return;
      const text = `another controller changed or removed the shared folder of volume "${id}" meanwhile; retrying`;
      throw this.error("aborted", text);
    };
  }

  /** The volume of a folder; undefined for a foreign folder and for one that is being removed. */
  asset(folder: SharedFolder | undefined): FolderVolume | undefined {
    const id = folder && this.names.idIn(folder.name.toLowerCase());
    const mark = folder && this.names.parse(folder.description);
    if (!folder || id === undefined || !mark || mark.state === "del") return undefined;
    const { bytes } = folder;
    return { id, folder, mark, bytes, name: undefined, source: undefined, notes: {}, finished: mark.state === "ok" };
  }

  /** The finished volumes of this connection. */
  async volumes(call: Pick<Call, "signal">): Promise<readonly FolderVolume[]> {
    const all = await this.folders.list(call.signal);
    return all.flatMap(each => this.asset(each) ?? []).filter(({ finished }) => finished);
  }
}

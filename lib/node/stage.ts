import { type AccessMode, type Capability, unmet } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import type { Attacher } from "./attach/attacher.ts";
import { attacherOf, protocolKey, withTargetLock } from "./attach/attachers.ts";
import { mountedDisk } from "./disks/filesystems.ts";
import { mayStageAgain, refuseUnrecorded, stageAgain, withNextFirst, withoutFurther } from "./further-staging.ts";
import { removeMountPoint, resolveParents } from "./mount/files.ts";
import { bindFlags, withAllFlags } from "./mount/flags.ts";
import type { MountTable } from "./mount/mount-table.ts";
import { VolumeMounter } from "./mount/volume-mounter.ts";
import type { NodeParts } from "./parts.ts";
import type { StageRequest, UnstageRequest, VolumeContext } from "./requests.ts";
import { refuseForeign } from "./state/ownership.ts";
import {
  blockFile,
  contextWithoutPodInfo,
  furtherAt,
  isSameUse,
  isStagingPath,
  isTarget,
  mountPointsOf,
  notYetAttached,
  type StageRecord,
  StageRecordWriter,
  stagedAt,
} from "./state/stage-records.ts";

const readers: ReadonlySet<AccessMode> = new Set<AccessMode>(["single-node-reader-only", "multi-node-reader-only"]);

/** Whether an access mode is read-only (CSI VolumeCapability.AccessMode). */
export const isReadOnly = (mode: AccessMode): boolean => readers.has(mode);

/** Whether nothing is written to the volume's file system: by its mode, or because a class or the node mounts it with "ro". */
const isOnlyRead = ({ mode, flags }: StageRecord): boolean => isReadOnly(mode) || flags.includes("ro");

/** The flags of a bind mount, with "ro" for a read-only access mode (CSI VolumeCapability.AccessMode). */
export const flagsOf = (capability: Capability): readonly string[] => {
  // The flags of a device file's mount do not affect the device.
  if (capability.kind === "block") return [];
  return bindFlags(isReadOnly(capability.mode) ? [...capability.mountFlags, "ro"] : capability.mountFlags);
};

/** Throws "failed-precondition" for a capability that volumes of this protocol lack (CSI NodeStageVolume). */
export function checkAccess(attacher: Attacher, capability: Capability, volumeId: string): void {
  const reason = unmet(attacher.access, capability);
  if (reason) throw new CsiError("failed-precondition", `volume "${volumeId}": ${reason}`);
}

/** The record of a new staging. */
export function stageRecord(
  request: Omit<StageRequest, "publishContext">,
  protocol: string,
  attacher: Attacher,
  path: string,
): StageRecord {
  const { volumeId, capability, context } = request;
  const { kind, mode, fsType } = capability;
  return {
    volumeId,
    stagingPath: path,
    protocol,
    context: contextWithoutPodInfo(context),
    kind,
    fsType: attacher.access.filesystems === "any" ? undefined : fsType || undefined,
    mode,
    flags: flagsOf(capability),
    ...notYetAttached,
  };
}

/** The record if the volume is still mounted somewhere, even though its first staging is gone. */
const stillUsed = (record: StageRecord | undefined, table: MountTable): StageRecord | undefined =>
  record && mountPointsOf(record).some(path => path !== stagedAt(record) && table.layers(path) > 0)
    ? record
    : undefined;

/** Throws for a second staging path or capability: a staged volume has one of each (CSI NodeStageVolume). */
function refuseSecond(record: StageRecord, earlier: StageRecord | undefined): void {
  if (!earlier || isSameUse(earlier, record)) return;
  const { volumeId, stagingPath } = earlier;
  if (stagingPath !== record.stagingPath) {
    const text = `volume "${volumeId}" is already staged at ${stagingPath}; unstage it there first`;
    throw new CsiError("failed-precondition", text);
  }
  const message = `volume "${volumeId}" is staged at ${stagingPath} with another capability; unstage it first`;
  throw new CsiError("already-exists", message);
}

/** Implements NodeStageVolume, NodeUnstageVolume and NodeExpandVolume. The caller holds the lock of the volume. */
export class VolumeStaging {
  readonly #parts: NodeParts;
  readonly #mounter: VolumeMounter;
  readonly #mountFlags: (volumeId: string) => Promise<readonly string[]>;

  readonly #most: number;

  /** `mountFlags` returns the flags for every staging mount; `most`: how many volumes are staged at once. */
  constructor(
    parts: NodeParts,
    mountFlags: (volumeId: string) => Promise<readonly string[]>,
    most = Number.POSITIVE_INFINITY,
  ) {
    this.#most = most;
    this.#parts = parts;
    this.#mounter = new VolumeMounter(parts);
    this.#mountFlags = mountFlags;
  }

  /** `stagingPath` comes from checkedPath. Writes the record before anything is done, so that a crash can be undone. */
  async stage(asked: StageRequest, call: Call): Promise<void> {
    const { attachers, mounts, records, ownership } = this.#parts;
    const { volumeId, context } = asked;
    const capability = withAllFlags(volumeId, asked.capability, await this.#mountFlags(volumeId), context, call);
    const request = { ...asked, capability };
    const protocol = context[protocolKey] ?? "";
    const attacher = attacherOf(attachers, protocol, volumeId);
    checkAccess(attacher, capability, volumeId);
    attacher.check?.(context, volumeId);
    const table = await mounts.table();
    const path = await resolveParents(request.stagingPath, table, call.signal);
    const before = await records.find(volumeId, call.log);
    const record = recordAfter(stageRecord(request, protocol, attacher, path), before);
    const staged = await ownership.stillStaged(before, table);
    if (staged && staged.stagingPath !== path && mayStageAgain(staged, record, table))
      return await stageAgain(this.#parts, staged, record, table, call);
    refuseSecond(record, staged);
    if (!before && this.#most < Number.POSITIVE_INFINITY) await this.#refuseMore(volumeId);
    const writer = new StageRecordWriter(records, record, before);
    const others = async () => (staged ? [] : await this.#others(record));
    const wanted = { ...request, readonly: isOnlyRead(record), notes: record.notes, table, others };
    try {
      if (attacher.detach) await writer.save();
      const attached = await this.#alone(attacher, context, call, () => attacher.attach(wanted, writer.note, call));
      // Attaching may be slow, so the mount table is read again.
      const now = attacher.detach ? await mounts.table() : table;
      await this.#mounter.mount(attached, { wanted, writer, before, isOwn: staged !== undefined, table: now, call });
    } catch (error) {
      if (isFinal(error)) await this.#undo(error, writer, staged ?? stillUsed(before, table), attacher, call);
      throw error;
    }
  }

  /** Throws "resource-exhausted" at the limit: kubelet then asks again how many volumes the node takes (KEP-4876). */
  async #refuseMore(volumeId: string): Promise<void> {
    const { length } = await this.#parts.records.all();
    if (length < this.#most) return;
    const text = `volume "${volumeId}" is one too many: this node has ${length} volumes of csimux, and node.maxVolumes of the main file is ${this.#most}`;
    throw new CsiError("resource-exhausted", text);
  }

  /** `stagingPath` comes from checkedPath. Succeeds if nothing is staged there. */
  async unstage({ volumeId, stagingPath }: UnstageRequest, call: Call): Promise<void> {
    const { mounts, records, ownership } = this.#parts;
    const table = await mounts.table();
    const path = await resolveParents(stagingPath, table, call.signal);
    const record = await records.find(volumeId, call.log);
    if (!isStagingPath(record, path) && isTarget(record, path) && table.layers(path) > 0)
      throw new CsiError("invalid-argument", `${path} is a target path of volume "${volumeId}", not its staging path`);
    const recorded = isStagingPath(record, path) ? record : undefined;
    const at = recorded ? stagedAt({ kind: recorded.kind, stagingPath: path }) : mountedIn(path, table);
    if (!(await ownership.owns(volumeId, record, at, table))) return refuseForeign(volumeId, at, table);
    const kept = recorded && (await this.#keptAfter(recorded, path, table));
    if (recorded && !kept) await refuseUnrecorded(this.#parts, recorded, at, table);
    await mounts.unmount(at, table, call);
    if (at !== path) await removeMountPoint(at, call.signal);
    if (kept) await records.save(withoutFurther(kept, path));
    else if (recorded) await this.#detach(recorded, call);
  }

  /**
   * The record that stays when this staging path goes, because the volume is staged at another one too; undefined if it does
   * not. Throws "failed-precondition" while the volume is published from the path (CSI NodeUnstageVolume).
   */
  async #keptAfter(record: StageRecord, path: string, table: MountTable): Promise<StageRecord | undefined> {
    refuseUsed(record, path, table);
    if (furtherAt(record, path)) return record;
    const kept = withNextFirst(record, table);
    if (kept) await this.#parts.records.save(kept);
    return kept;
  }

  /**
   * Grows the device, and the staged file system, to the size of the volume. The file system of a read-only volume stays unchanged. Returns
   * the bytes that pods have; undefined for folders and shares, which the server grew. Throws "failed-precondition" if the file system does
   * not grow: then the kubelet starts pods nevertheless (node_expander.go, expandOnPlugin). A record that was rebuilt, as for a volume that
   * democratic-csi has staged, does not name the file system: the mount table does.
   */
  async expand(record: StageRecord, least: bigint | undefined, call: Call): Promise<bigint | undefined> {
    const { protocol, volumeId, context, attached } = record;
    const attacher = attacherOf(this.#parts.attachers, protocol, volumeId);
    const known = attached?.kind === "device" ? attached.mounted : undefined;
    const table = attached || isOnlyRead(record) ? undefined : await this.#parts.mounts.table();
    const top = attacher.access.filesystems === "any" ? undefined : table?.top(stagedAt(record));
    const mounted = top ? mountedDisk(volumeId, top) : known;
    const bytes = await this.#alone(attacher, context, call, async () => attacher.grow?.(record, least, call));
    if (!mounted || isOnlyRead(record)) return bytes;
    const has = await this.#mounter.grow(mounted, new StageRecordWriter(this.#parts.records, record, record), call);
    // The table of a disk's partitions, and of a file system's clusters, takes less than that.
    if (least !== undefined && has < least - least / 16n) {
      const text = `volume "${volumeId}" has ${has} of ${least} bytes: csimux grows neither partitions nor ${mounted.fsType} of this size`;
      throw new CsiError("failed-precondition", `${text}; it is on ${mounted.source}`);
    }
    return bytes !== undefined && bytes < has ? bytes : has;
  }

  /** Runs `work` under the lock that the volume shares with others, if any. */
  #alone<T>(attacher: Attacher, context: VolumeContext, call: Call, work: () => Promise<T>): Promise<T> {
    return withTargetLock(this.#parts.targets, attacher, context, call, work);
  }

  /** Other volumes of the same protocol that are attached to this node, or were about to be. */
  async #others({ protocol, volumeId }: StageRecord): Promise<readonly StageRecord[]> {
    const all = await this.#parts.records.seen();
    return all.filter(other => other.protocol === protocol && other.volumeId !== volumeId);
  }

  async #detach(record: StageRecord, call: Call): Promise<void> {
    const { attachers, records } = this.#parts;
    const attacher = attacherOf(attachers, record.protocol, record.volumeId);
    await this.#alone(attacher, record.context, call, async () => {
      const others = await this.#others(record);
      if (!wasNeverAttached(attacher, record)) await attacher.detach?.(record, others, call);
      await records.remove(record.volumeId);
    });
  }

  /**
   * Cleans up after a failed call, and keeps what was staged or published before. Throws a retryable code instead of the final one if
   * the cleanup fails, or if the volume is mounted at its staging path: after a final one, the kubelet forgets a staging of which it was
   * uncertain (markDeviceErrorState) and never unstages it, and the volume goes to another node while it is still mounted here.
   */
  async #undo(
    failure: unknown,
    writer: StageRecordWriter,
    kept: StageRecord | undefined,
    attacher: Attacher,
    call: Call,
  ): Promise<void> {
    const { mounts, records } = this.#parts;
    const { record } = writer;
    let left: string | undefined;
    try {
      const table = await mounts.table();
      const isMounted = [record, kept].some(each => each && isShown(each, table)) || (kept && mayBeShown(kept, table));
      if (isMounted) left = `it stays mounted at ${stagedAt(record)}`;
      if (kept) await writer.restore(kept);
      else if (left) await writer.save();
      else if (attacher.detach) await this.#detach(record, call);
      else await records.remove(record.volumeId);
    } catch (error) {
      left = `the cleanup failed as well (${messageOf(error)}); unstage the volume`;
    }
    if (left) throw new CsiError("unavailable", `${messageOf(failure)}; ${left}`, { cause: failure });
  }
}

/** Whether the staged mount is what the record says. */
const isShown = (record: StageRecord, table: MountTable): boolean =>
  record.shows !== undefined && table.shows(stagedAt(record), record.shows);

/** Whether the staged mount can be the one of a call that ended before it recorded what it has mounted. */
const mayBeShown = (record: StageRecord, table: MountTable): boolean =>
  record.shows === undefined && table.layers(stagedAt(record)) > 0;

/** Whether nothing was attached, because the attacher rejects the context; a record of it must not stay forever. */
function wasNeverAttached(attacher: Attacher, { attached, context, volumeId }: StageRecord): boolean {
  if (attached) return false;
  try {
    attacher.check?.(context, volumeId);
    return false;
  } catch {
    return true;
  }
}

const messageOf = (error: unknown): string => (error instanceof CsiError ? error.message : "an unknown error");

/** The record of a new staging, with the data to keep from the earlier one. */
function recordAfter(record: StageRecord, before: StageRecord | undefined): StageRecord {
  if (!before) return record;
  const { published, notes, shows, attached, further, notGrown } = before;
  const kept = { ...record, published, notes, ...(further && { further }) };
  return isSameUse(before, record) ? { ...kept, shows, attached, notGrown } : kept;
}

/** The mount point in the staging folder of a volume without a record. */
const mountedIn = (path: string, table: MountTable): string =>
  table.layers(`${path}/${blockFile}`) > 0 ? `${path}/${blockFile}` : path;

/** Throws "failed-precondition" while a volume is published from this staging path (CSI NodeUnstageVolume). */
function refuseUsed({ volumeId, stagingPath, published }: StageRecord, path: string, table: MountTable): void {
  const used = published.find(({ target, staging = stagingPath }) => staging === path && table.layers(target) > 0);
  if (!used) return;
  const text = `volume "${volumeId}" is still published at ${used.target}; unpublish it first`;
  throw new CsiError("failed-precondition", text);
}

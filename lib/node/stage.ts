import { type AccessMode, type Capability, unmet } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import type { Turns } from "../io/turns.ts";
import type { Attacher, Attachment, AttachRequest } from "./attach/attacher.ts";
import { type Attachers, attacherOf, protocolKey } from "./attach/attachers.ts";
import { withTargetLock } from "./attach/target-lock.ts";
import { withAllFlags } from "./mount/all-flags.ts";
import { bindFlags } from "./mount/flags.ts";
import { removeMountPoint } from "./mount/mount-points.ts";
import type { MountTable } from "./mount/mount-table.ts";
import type { Mounts } from "./mount/mounts.ts";
import { resolveParents } from "./mount/paths.ts";
import type { StagingMounts } from "./mount/staging-mounts.ts";
import type { StageRequest, UnstageRequest } from "./requests.ts";
import { type MountOwnership, refuseForeign } from "./state/ownership.ts";
import { isSameStaging, StageRecordWriter } from "./state/record-writer.ts";
import {
  blockFile,
  contextWithoutPodInfo,
  isTarget,
  type StageRecord,
  type StageRecords,
  stagedAt,
} from "./state/stage-records.ts";

const readers: ReadonlySet<AccessMode> = new Set<AccessMode>(["single-node-reader-only", "multi-node-reader-only"]);

/** Whether a mode only reads (CSI VolumeCapability.AccessMode). */
export const isReadOnly = (mode: AccessMode): boolean => readers.has(mode);

/** The flags of a mount for this capability: what a bind mount can carry, and "ro" for a mode that only reads (CSI VolumeCapability.AccessMode). */
export const flagsOf = (capability: Capability): readonly string[] => {
  // A device file is no file system: no flag of its mount says anything about the device.
  if (capability.kind === "block") return [];
  return bindFlags(isReadOnly(capability.mode) ? [...capability.mountFlags, "ro"] : capability.mountFlags);
};

/** Throws "failed-precondition" for a capability that volumes of this protocol do not have (CSI NodeStageVolume). */
export function checkAccess(attacher: Attacher, capability: Capability, volumeId: string): void {
  const reason = unmet(attacher.access, capability);
  if (reason) throw new CsiError("failed-precondition", `volume "${volumeId}": ${reason}`);
}

/** What to remember of a staging. */
export function stageRecord(
  request: Omit<StageRequest, "publishContext">,
  protocol: string,
  attacher: Attacher,
  place: string,
): StageRecord {
  const { volumeId, capability, context } = request;
  const { kind, mode, fsType } = capability;
  return {
    volumeId,
    stagingPath: place,
    protocol,
    context: contextWithoutPodInfo(context),
    kind,
    fsType: attacher.access.filesystems === "any" ? undefined : fsType || undefined,
    mode,
    flags: flagsOf(capability),
    shows: undefined,
    attached: undefined,
    notes: {},
    published: [],
  };
}

/** The record when the volume is still published, although its staging is gone. */
const published = (record: StageRecord | undefined, table: MountTable): StageRecord | undefined =>
  record?.published.some(({ target }) => table.layers(target) > 0) ? record : undefined;

/** A volume has one staging path and, while it is staged, one capability (CSI NodeStageVolume). */
function refuseSecond(record: StageRecord, earlier: StageRecord | undefined): void {
  if (!earlier || isSameStaging(earlier, record)) return;
  const { volumeId, stagingPath } = earlier;
  if (stagingPath !== record.stagingPath) {
    throw new CsiError(
      "failed-precondition",
      `volume "${volumeId}" is staged at ${stagingPath} already; unstage it there first`,
    );
  }
  throw new CsiError(
    "already-exists",
    `volume "${volumeId}" is staged at ${stagingPath} with another capability; unstage it first`,
  );
}

const messageOf = (error: unknown): string => (error instanceof CsiError ? error.message : "an unknown error");

/** NodeStageVolume and NodeUnstageVolume. The caller holds the volume. */
export class VolumeStaging {
  readonly #attachers: Attachers;
  readonly #mounts: Mounts;
  readonly #records: StageRecords;
  readonly #ownership: MountOwnership;
  readonly #showing: StagingMounts;
  readonly #turns: Turns;

  readonly #mountFlags: (volumeId: string) => Promise<readonly string[]>;

  /** `mountFlags` are those that every staged mount gets. */
  constructor(
    attachers: Attachers,
    mounts: Mounts,
    records: StageRecords,
    ownership: MountOwnership,
    showing: StagingMounts,
    turns: Turns,
    mountFlags: (volumeId: string) => Promise<readonly string[]>,
  ) {
    this.#attachers = attachers;
    this.#mounts = mounts;
    this.#records = records;
    this.#ownership = ownership;
    this.#showing = showing;
    this.#turns = turns;
    this.#mountFlags = mountFlags;
  }

  /** `stagingPath` is a checked path. The record is written before anything is done, so that a crash can be undone. */
  async stage(asked: StageRequest, call: Call): Promise<void> {
    const { volumeId, context } = asked;
    const capability = withAllFlags(volumeId, asked.capability, await this.#mountFlags(volumeId), context, call);
    const request = { ...asked, capability };
    const protocol = context[protocolKey] ?? "";
    const attacher = attacherOf(this.#attachers, protocol, volumeId);
    checkAccess(attacher, capability, volumeId);
    attacher.check?.(context, volumeId);
    const table = await this.#mounts.table();
    const place = await resolveParents(request.stagingPath, table, call.signal);
    const before = await this.#records.find(volumeId, call.log);
    const record = recordAfter(stageRecord(request, protocol, attacher, place), before);
    const staged = await this.#ownership.stillStaged(before, table);
    refuseSecond(record, staged);
    const draft = new StageRecordWriter(this.#records, record, before);
    const wanted = { ...request, readonly: isReadOnly(capability.mode), notes: record.notes, table };
    try {
      await this.#attach(attacher, wanted, draft, before, call);
    } catch (error) {
      if (isFinal(error)) await this.#undo(error, draft, staged ?? published(before, table), attacher, call);
      throw error;
    }
  }

  async #attach(
    attacher: Attacher,
    wanted: AttachRequest,
    draft: StageRecordWriter,
    before: StageRecord | undefined,
    call: Call,
  ): Promise<void> {
    if (attacher.detach) await draft.save();
    const work = () => attacher.attach(wanted, draft.note, call);
    const attached = await withTargetLock(this.#turns, attacher, wanted.context, call, work);
    // What takes its time to attach finds other mounts than before.
    const table = attacher.detach ? await this.#mounts.table() : wanted.table;
    await this.#showing.mount(attached, wanted, draft, before, table, call);
  }

  /** `stagingPath` is a checked path. Success when nothing is staged there. */
  async unstage({ volumeId, stagingPath }: UnstageRequest, call: Call): Promise<void> {
    const table = await this.#mounts.table();
    const place = await resolveParents(stagingPath, table, call.signal);
    const record = await this.#records.find(volumeId, call.log);
    if (record?.stagingPath !== place && isTarget(record, place) && table.layers(place) > 0) {
      throw new CsiError("invalid-argument", `${place} is a target path of volume "${volumeId}", not its staging path`);
    }
    const recorded = record?.stagingPath === place ? record : undefined;
    const at = recorded ? stagedAt(recorded) : mountedIn(place, table);
    const own = await this.#ownership.owns(volumeId, record, at, table);
    if (!own) return refuseForeign(volumeId, at, table);
    refuseUsed(recorded, table);
    await this.#mounts.unmount(at, table, call);
    if (at !== place) await removeMountPoint(at, call.signal);
    if (recorded) await this.#detach(recorded, call);
  }

  async #detach(record: StageRecord, call: Call): Promise<void> {
    const attacher = attacherOf(this.#attachers, record.protocol, record.volumeId);
    await withTargetLock(this.#turns, attacher, record.context, call, async () => {
      if (attacher.detach && !wasNeverAttached(attacher, record))
        await attacher.detach(record, await this.#others(record), call);
      await this.#records.remove(record.volumeId);
    });
  }

  /** The other volumes of the same protocol that are attached to this node, or were about to be. */
  async #others({ volumeId, protocol }: StageRecord): Promise<readonly Attachment[]> {
    return (await this.#records.all()).filter(other => other.protocol === protocol && other.volumeId !== volumeId);
  }

  /**
   * After a failed call that mounted nothing: what was staged or published before stays so. When that fails too, the answer
   * is not final although the failure was, so that kubelet has the volume unstaged.
   */
  async #undo(
    failure: unknown,
    draft: StageRecordWriter,
    kept: StageRecord | undefined,
    attacher: Attacher,
    call: Call,
  ): Promise<void> {
    try {
      if (kept) await draft.restore(kept);
      else if (attacher.detach) await this.#detach(draft.record, call);
      else await this.#records.remove(draft.record.volumeId);
    } catch (error) {
      const left = `what the call had begun could not be undone (${messageOf(error)}); unstage the volume`;
      throw new CsiError("unavailable", `${messageOf(failure)}; ${left}`, { cause: failure });
    }
  }
}

/** Whether a record is of a context that its attacher cannot use, so that nothing was done with it: older versions wrote such records. */
function wasNeverAttached(attacher: Attacher, { attached, context, volumeId }: StageRecord): boolean {
  if (attached) return false;
  try {
    attacher.check?.(context, volumeId);
    return false;
  } catch {
    return true;
  }
}

/** The record of a new staging with what it keeps of the one before it. */
function recordAfter(record: StageRecord, before: StageRecord | undefined): StageRecord {
  if (!before) return record;
  const { published, notes, shows, attached } = before;
  return isSameStaging(before, record)
    ? { ...record, published, notes, shows, attached }
    : { ...record, published, notes };
}

/** Where in the staging folder of a volume without a record something is mounted. */
const mountedIn = (place: string, table: MountTable): string =>
  table.layers(`${place}/${blockFile}`) > 0 ? `${place}/${blockFile}` : place;

/** Throws "failed-precondition" while a staged volume is published (CSI NodeUnstageVolume). */
function refuseUsed(record: StageRecord | undefined, table: MountTable): void {
  const used = record?.published.find(({ target }) => table.layers(target) > 0);
  if (!used) return;
  throw new CsiError(
    "failed-precondition",
    `volume "${record?.volumeId}" is still published at ${used.target}; unpublish it first`,
  );
}

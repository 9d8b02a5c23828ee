import { dirname } from "node:path";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import { type Attachers, attacherOf, protocolKey } from "./attach/attachers.ts";
import type { Disks } from "./disks/disks.ts";
import { ReadOnlyBlockAccess } from "./disks/read-only-block.ts";
import { serverSilent } from "./health/mount-health.ts";
import { withoutPasswords } from "./mount/all-flags.ts";
import { bindFlags, lackingFlags } from "./mount/flags.ts";
import { ensureFile, ensureFolder, removeMountPoint } from "./mount/mount-points.ts";
import { type Identity, isWithin, type MountTable, sameFolder } from "./mount/mount-table.ts";
import { type BindMount, type Mounts, mountMismatch } from "./mount/mounts.ts";
import { resolveParents } from "./mount/paths.ts";
import type { PublishRequest, UnpublishRequest } from "./requests.ts";
import { checkAccess, flagsOf, stageRecord } from "./stage.ts";
import { digest } from "./state/digest.ts";
import { type MountOwnership, refuseForeign } from "./state/ownership.ts";
import {
  contextWithoutPodInfo,
  isTarget,
  type PublishedTarget,
  type StageRecord,
  type StageRecords,
  stagedAt,
} from "./state/stage-records.ts";

/** What a publish call asks for, with real places. */
interface PublishPlan {
  readonly bind: BindMount;
  readonly entry: PublishedTarget;
}

/** NodePublishVolume and NodeUnpublishVolume. The caller holds the volume and the target. */
export class VolumePublishing {
  readonly #attachers: Attachers;
  readonly #mounts: Mounts;
  readonly #records: StageRecords;
  readonly #ownership: MountOwnership;
  readonly #reading: ReadOnlyBlockAccess;

  constructor(attachers: Attachers, mounts: Mounts, records: StageRecords, ownership: MountOwnership, disks: Disks) {
    this.#attachers = attachers;
    this.#mounts = mounts;
    this.#records = records;
    this.#ownership = ownership;
    this.#reading = new ReadOnlyBlockAccess(disks);
  }

  /** Both paths are checked paths. */
  async publish(request: PublishRequest & { readonly stagingPath: string }, call: Call): Promise<void> {
    const table = await this.#mounts.table();
    const staging = await resolveParents(request.stagingPath, table, call.signal);
    const target = await resolveParents(request.targetPath, table, call.signal);
    if (isWithin(staging, target) || isWithin(target, staging)) {
      throw new CsiError("invalid-argument", `target path ${target} and staging path ${staging} lie within each other`);
    }
    const staged = await this.#staged(request, staging, table, call);
    const wanted = wantedOf(request, staged, target);
    if (await this.#isStale(target, staged, table, call)) {
      await this.#mounts.unmount(target, table, call);
      return await this.#mount(wanted, staged, await this.#mounts.table(), call);
    }
    if (table.top(target)) return await this.#repeated(wanted, staged, table, call);
    refuseSecond(wanted, staged, table);
    await this.#mount(wanted, staged, table, call);
  }

  /** `targetPath` is a checked path. Success when nothing is there. */
  async unpublish({ volumeId, targetPath }: UnpublishRequest, call: Call): Promise<void> {
    const table = await this.#mounts.table();
    const target = await resolveParents(targetPath, table, call.signal);
    const record = await this.#records.find(volumeId, call.log);
    if (record?.stagingPath === target) {
      throw new CsiError(
        "invalid-argument",
        `${target} is the staging path of volume "${volumeId}", not a target path`,
      );
    }
    const own = await this.#ownership.owns(volumeId, record, target, table);
    if (!own) return refuseForeign(volumeId, target, table);
    await this.#mounts.unmount(target, table, call);
    if (record) await this.#reading.end(record, target, table, call);
    await removeMountPoint(target, call.signal);
    if (record && isTarget(record, target)) await this.#removeTarget(record, target, call);
  }

  /**
   * What is unmounted is unpublished, even where the disk of the records is full: then pods must be able to go most of all.
   * An entry that stays counts for nothing once its target is not mounted.
   */
  async #removeTarget(record: StageRecord, target: string, call: Call): Promise<void> {
    await this.#records.save(without(record, target)).catch((error: unknown) => {
      call.log.warn("the record of an unpublished volume could not be written; it still names the target", {
        volumeId: record.volumeId,
        target,
        reason: error instanceof Error ? error.message : "unknown",
      });
    });
  }

  /** The record of the volume that is mounted at the staging path; a lost one is made again from the request. */
  async #staged(request: PublishRequest, staging: string, table: MountTable, call: Call): Promise<StageRecord> {
    const { volumeId, capability, context } = request;
    const record = await this.#records.find(volumeId, call.log);
    const protocol = context[protocolKey] ?? record?.protocol ?? "";
    const attacher = attacherOf(this.#attachers, protocol, volumeId);
    checkAccess(attacher, capability, volumeId);
    const at = stagedAt({ kind: capability.kind, stagingPath: staging });
    const other = record && record.kind !== capability.kind && record.stagingPath === staging ? record : undefined;
    if (other) {
      throw new CsiError(
        "failed-precondition",
        `volume "${volumeId}" is staged as ${other.kind}, not as ${capability.kind}`,
      );
    }
    const top = table.top(at);
    const own = await this.#ownership.owns(volumeId, record, at, table);
    if (!top || !own || (record && record.stagingPath !== staging)) {
      throw new CsiError("failed-precondition", `volume "${volumeId}" is not staged at ${staging}; stage it first`);
    }
    if (!record) {
      call.log.warn("a staged volume has no record; it is made again", { volumeId, stagingPath: staging });
      const made = stageRecord({ volumeId, stagingPath: staging, capability, context }, protocol, attacher, staging);
      return { ...made, flags: bindFlags(top.options), shows: { device: top.device, root: top.root } };
    }
    return record;
  }

  /**
   * Whether the target shows a share that its server no longer knows, and nobody can use: an export that was withdrawn and came
   * back. Throws "unavailable" while the server does not answer.
   */
  async #isStale(target: string, staged: StageRecord, table: MountTable, call: Call): Promise<boolean> {
    const top = table.top(target);
    if (!top || staged.attached?.kind !== "share" || !isTarget(staged, target)) return false;
    const health = await this.#mounts.health(top, call.signal);
    if (health === "silent") throw serverSilent(staged.volumeId, top);
    return health === "stale";
  }

  /** Something is mounted at the target: success when it is what an equal earlier call made. */
  async #repeated(wanted: PublishPlan, staged: StageRecord, table: MountTable, call: Call): Promise<void> {
    const { bind, entry } = wanted;
    const earlier = staged.published.find(({ target }) => target === entry.target);
    const top = table.top(bind.at);
    const identity = table.identity(bind.source);
    const wrong = mountMismatch(top, identity, bind.flags);
    if (top && !sameFolder(top, identity)) {
      throw new CsiError(
        "failed-precondition",
        `${bind.at} is in use and does not show volume "${staged.volumeId}": ${wrong}`,
      );
    }
    if (earlier ? earlier.digest !== entry.digest : wrong) {
      throw new CsiError(
        "already-exists",
        `volume "${staged.volumeId}" is published at ${bind.at} with other arguments; unpublish it first`,
      );
    }
    await this.#reading.begin(staged, entry, table, call);
    if (!earlier) await this.#records.save(withEntry(staged, shown(entry, identity)));
    if (lackingFlags(bind.flags, top?.options ?? []).length > 0)
      await this.#mounts.protect(bind.at, identity, bind.flags, table, call.signal);
  }

  async #mount(wanted: PublishPlan, staged: StageRecord, table: MountTable, call: Call): Promise<void> {
    const { bind, entry } = wanted;
    await this.#records.save(withEntry(staged, shown(entry, table.identity(bind.source))));
    let made = false;
    try {
      await this.#reading.begin(staged, entry, table, call);
      made = await (staged.kind === "block" ? ensureFileIn : ensureFolder)(bind.at, call.signal);
      await this.#mounts.bind(bind, table, call.signal);
    } catch (error) {
      if (isFinal(error)) await this.#undo(made, wanted, staged, call);
      throw error;
    }
  }

  /** What cannot be undone stands in the record, counts for nothing while it is not mounted, and goes with unpublishing. */
  async #undo(made: boolean, { bind, entry }: PublishPlan, staged: StageRecord, call: Call): Promise<void> {
    try {
      if (made) await removeMountPoint(bind.at, call.signal);
      await this.#records.save(without(staged, entry.target));
    } catch (error) {
      call.log.warn("what a failed publishing had begun could not be undone", {
        volumeId: staged.volumeId,
        target: entry.target,
        reason: error instanceof Error ? error.message : "unknown",
      });
    }
  }
}

/** As ensureFile, with the folder around it, which the kubelet makes (CSI NodePublishVolume) and others may not. */
async function ensureFileIn(place: string, signal: AbortSignal): Promise<boolean> {
  await ensureFolder(dirname(place), signal);
  return await ensureFile(place, signal);
}

/** By what it shows a mount at the target is known again, also when the volume is mounted anew where it is staged. */
const shown = (entry: PublishedTarget, { device, root }: Identity): PublishedTarget => ({
  ...entry,
  shows: { device, root },
});

const without = (record: StageRecord, target: string): StageRecord => ({
  ...record,
  published: record.published.filter(published => published.target !== target),
});

const withEntry = (record: StageRecord, entry: PublishedTarget): StageRecord => ({
  ...record,
  published: [...without(record, entry.target).published, entry],
});

function wantedOf(request: PublishRequest, staged: StageRecord, target: string): PublishPlan {
  const { capability, readonly, context, publishContext } = request;
  const { kind, fsType, mountFlags, mountGroup, mode } = capability;
  const flags = flagsOf(readonly ? { ...capability, mountFlags: [...mountFlags, "ro"] } : capability);
  const volume = { context: contextWithoutPodInfo(context), publishContext: contextWithoutPodInfo(publishContext) };
  const terms = {
    kind,
    fsType: fsType || undefined,
    mountFlags: withoutPasswords(mountFlags),
    mountGroup: mountGroup || undefined,
    mode,
    readonly,
    staging: staged.stagingPath,
    ...volume,
  };
  return {
    bind: { source: stagedAt(staged), at: target, flags },
    entry: { target, readonly, mode, digest: digest(terms) },
  };
}

/** CSI NodePublishVolume, the table of second calls: a single writer has a single target. */
function refuseSecond({ entry }: PublishPlan, staged: StageRecord, table: MountTable): void {
  const others = staged.published.filter(({ target }) => target !== entry.target && table.layers(target) > 0);
  const modes = [entry.mode, staged.mode, ...others.map(({ mode }) => mode)];
  const [other] = others;
  if (!other || !modes.includes("single-node-single-writer")) return;
  throw new CsiError(
    "failed-precondition",
    `volume "${staged.volumeId}" has a single writer and is published at ${other.target} already`,
  );
}

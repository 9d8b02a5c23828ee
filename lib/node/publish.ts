import { dirname } from "node:path";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import { type Attachers, attacherOf, protocolKey } from "./attachers.ts";
import { digest } from "./digest.ts";
import type { Disks } from "./disks.ts";
import { ensureFile, ensureFolder, removeEntry } from "./entries.ts";
import { bindFlags, lackingFlags } from "./flags.ts";
import { silent } from "./health.ts";
import { type Identity, isWithin, type MountTable, sameFolder } from "./mount-table.ts";
import { type Bind, type Mounts, misfit } from "./mounts.ts";
import { withoutPasswords } from "./options.ts";
import { type Ownership, refuseForeign } from "./ownership.ts";
import { realPlace } from "./paths.ts";
import { RawReading } from "./raw.ts";
import { isTarget, lastingContext, type Published, type Records, type StageRecord, stagedAt } from "./records.ts";
import type { PublishRequest, UnpublishRequest } from "./requests.ts";
import { checkAccess, flagsOf, stageRecord } from "./stage.ts";

/** What a publish call asks for, with real places. */
interface Wanted {
  readonly bind: Bind;
  readonly entry: Published;
}

/** NodePublishVolume and NodeUnpublishVolume. The caller holds the volume and the target. */
export class Publishing {
  readonly #attachers: Attachers;
  readonly #mounts: Mounts;
  readonly #records: Records;
  readonly #ownership: Ownership;
  readonly #reading: RawReading;

  constructor(attachers: Attachers, mounts: Mounts, records: Records, ownership: Ownership, disks: Disks) {
    this.#attachers = attachers;
    this.#mounts = mounts;
    this.#records = records;
    this.#ownership = ownership;
    this.#reading = new RawReading(disks);
  }

  /** Both paths are checked paths. */
  async publish(request: PublishRequest & { readonly stagingPath: string }, call: Call): Promise<void> {
    const table = await this.#mounts.table();
    const staging = await realPlace(request.stagingPath, table, call.signal);
    const target = await realPlace(request.targetPath, table, call.signal);
    if (isWithin(staging, target) || isWithin(target, staging)) {
      throw new CsiError("invalid-argument", `target path ${target} and staging path ${staging} lie within each other`);
    }
    const staged = await this.#staged(request, staging, table, call);
    const wanted = wantedOf(request, staged, target);
    if (await this.#isStale(target, staged, table, call)) {
      await this.#mounts.unmount(target, table, call);
      return await this.#mount(wanted, staged, await this.#mounts.table(), call);
    }
    if (table.top(target)) return await this.#again(wanted, staged, table, call);
    refuseSecond(wanted, staged, table);
    await this.#mount(wanted, staged, table, call);
  }

  /** `targetPath` is a checked path. Success when nothing is there. */
  async unpublish({ volumeId, targetPath }: UnpublishRequest, call: Call): Promise<void> {
    const table = await this.#mounts.table();
    const target = await realPlace(targetPath, table, call.signal);
    const record = await this.#records.find(volumeId, call.log);
    if (record?.stagingPath === target) {
      throw new CsiError(
        "invalid-argument",
        `${target} is the staging path of volume "${volumeId}", not a target path`,
      );
    }
    const own = await this.#ownership.isOwn(volumeId, record, target, table);
    if (!own) return refuseForeign(volumeId, target, table);
    await this.#mounts.unmount(target, table, call);
    if (record) await this.#reading.end(record, target, table, call);
    await removeEntry(target, call.signal);
    if (record && isTarget(record, target)) await this.#strike(record, target, call);
  }

  /**
   * What is unmounted is unpublished, even where the disk of the records is full: then pods must be able to go most of all.
   * An entry that stays counts for nothing once its target is not mounted.
   */
  async #strike(record: StageRecord, target: string, call: Call): Promise<void> {
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
    const own = await this.#ownership.isOwn(volumeId, record, at, table);
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
    if (health === "silent") throw silent(staged.volumeId, top);
    return health === "stale";
  }

  /** Something is mounted at the target: success when it is what an equal earlier call made. */
  async #again(wanted: Wanted, staged: StageRecord, table: MountTable, call: Call): Promise<void> {
    const { bind, entry } = wanted;
    const earlier = staged.published.find(({ target }) => target === entry.target);
    const top = table.top(bind.at);
    const identity = table.identity(bind.source);
    const wrong = misfit(top, identity, bind.flags);
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

  async #mount(wanted: Wanted, staged: StageRecord, table: MountTable, call: Call): Promise<void> {
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
  async #undo(made: boolean, { bind, entry }: Wanted, staged: StageRecord, call: Call): Promise<void> {
    try {
      if (made) await removeEntry(bind.at, call.signal);
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
const shown = (entry: Published, { device, root }: Identity): Published => ({ ...entry, shows: { device, root } });

const without = (record: StageRecord, target: string): StageRecord => ({
  ...record,
  published: record.published.filter(published => published.target !== target),
});

const withEntry = (record: StageRecord, entry: Published): StageRecord => ({
  ...record,
  published: [...without(record, entry.target).published, entry],
});

function wantedOf(request: PublishRequest, staged: StageRecord, target: string): Wanted {
  const { capability, readonly, context, publishContext } = request;
  const { kind, fsType, mountFlags, mountGroup, mode } = capability;
  const flags = flagsOf(readonly ? { ...capability, mountFlags: [...mountFlags, "ro"] } : capability);
  const volume = { context: lastingContext(context), publishContext: lastingContext(publishContext) };
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
function refuseSecond({ entry }: Wanted, staged: StageRecord, table: MountTable): void {
  const others = staged.published.filter(({ target }) => target !== entry.target && table.layers(target) > 0);
  const modes = [entry.mode, staged.mode, ...others.map(({ mode }) => mode)];
  const [other] = others;
  if (!other || !modes.includes("single-node-single-writer")) return;
  throw new CsiError(
    "failed-precondition",
    `volume "${staged.volumeId}" has a single writer and is published at ${other.target} already`,
  );
}

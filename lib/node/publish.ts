import { dirname } from "node:path";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal, messageOf } from "../core/errors.ts";
import { attacherOf, protocolKey } from "./attach/attachers.ts";
import { type CheckedMount, checkMount } from "./health/findings.ts";
import { ensureFile, ensureFolder, removeMountPoint, resolveParents } from "./mount/files.ts";
import { bindFlags, lackingFlags, withoutPasswords } from "./mount/flags.ts";
import { type Identity, isWithin, type MountTable, sameFolder } from "./mount/mount-table.ts";
import { type BindMount, mountMismatch } from "./mount/mounts.ts";
import type { NodeParts } from "./parts.ts";
import type { PublishRequest, UnpublishRequest } from "./requests.ts";
import { checkAccess, flagsOf, isReadOnly, stageRecord } from "./stage.ts";
import { refuseForeign } from "./state/ownership.ts";
import {
  contextWithoutPodInfo,
  digest,
  isStagingPath,
  isTarget,
  type PublishedTarget,
  type StageRecord,
  stagedAt,
} from "./state/stage-records.ts";

/** The mount and the record entry for a publish call, with real paths. */
interface PublishPlan {
  readonly bind: BindMount;
  readonly entry: PublishedTarget;
}

/** Implements NodePublishVolume and NodeUnpublishVolume. The caller holds the locks of the volume and the target. */
export class VolumePublishing {
  readonly #parts: NodeParts;

  constructor(parts: NodeParts) {
    this.#parts = parts;
  }

  /** `stagingPath` and `targetPath` come from checkedPath. */
  async publish(request: PublishRequest & { readonly stagingPath: string }, call: Call): Promise<void> {
    const table = await this.#parts.mounts.table();
    const staging = await resolveParents(request.stagingPath, table, call.signal);
    const target = await resolveParents(request.targetPath, table, call.signal);
    if (isWithin(staging, target) || isWithin(target, staging))
      throw new CsiError("invalid-argument", `target path ${target} and staging path ${staging} overlap`);
    const staged = await this.#staged(request, staging, table, call);
    const wanted = wantedOf(request, staged, staging, target);
    // The kubelet stages a volume again only when no pod on the node uses it: a further pod makes no other call.
    const { state, error } = await this.#check(wanted.bind.source, staged, table, call);
    if (error && !(state === "read-only" && wanted.bind.flags.includes("ro"))) throw error;
    const there = isTarget(staged, target) ? await this.#check(target, staged, table, call) : undefined;
    if (there?.state === "silent") throw there.error;
    // The target may show what had failed before the volume was staged again.
    if (there?.state === "failed") {
      await this.#parts.mounts.unmount(target, table, call);
      return await this.#mount(wanted, staged, await this.#parts.mounts.table(), call);
    }
    if (table.top(target)) return await this.#repeated(wanted, staged, table, call);
    refuseSecond(wanted, staged, table);
    await this.#mount(wanted, staged, table, call);
  }

  /** `targetPath` comes from checkedPath. Succeeds if nothing is there. */
  async unpublish({ volumeId, targetPath }: UnpublishRequest, call: Call): Promise<void> {
    const table = await this.#parts.mounts.table();
    const target = await resolveParents(targetPath, table, call.signal);
    const record = await this.#parts.records.find(volumeId, call.log);
    if (isStagingPath(record, target)) {
      const text = `${target} is the staging path of volume "${volumeId}", not a target path`;
      throw new CsiError("invalid-argument", text);
    }
    const own = await this.#parts.ownership.owns(volumeId, record, target, table);
    if (!own) return refuseForeign(volumeId, target, table);
    await this.#parts.mounts.unmount(target, table, call);
    if (record) await this.#acceptWrites(record, target, table, call);
    await removeMountPoint(target, call.signal);
    if (record && isTarget(record, target)) await this.#removeTarget(record, target, call);
  }

  /**
   * Removes the target's entry from the record. Unpublishing succeeds even if this fails, because pod teardown must not
   * fail on a full disk. A remaining entry has no effect once its target is not mounted.
   */
  async #removeTarget(record: StageRecord, target: string, call: Call): Promise<void> {
    await this.#parts.records.save(without(record, target)).catch((error: unknown) => {
      const seen = { volumeId: record.volumeId, target, reason: messageOf(error) };
      call.log.warn("cannot write the record of an unpublished volume; it still names the target", seen);
    });
  }

  /** The record of the volume mounted at the staging path; a lost one is rebuilt from the request. */
  async #staged(request: PublishRequest, staging: string, table: MountTable, call: Call): Promise<StageRecord> {
    const { volumeId, capability, context } = request;
    const record = await this.#parts.records.find(volumeId, call.log);
    const protocol = context[protocolKey] ?? record?.protocol ?? "";
    const attacher = attacherOf(this.#parts.attachers, protocol, volumeId);
    checkAccess(attacher, capability, volumeId);
    const at = stagedAt({ kind: capability.kind, stagingPath: staging });
    const other = isStagingPath(record, staging) && record.kind !== capability.kind ? record : undefined;
    if (other) {
      const text = `volume "${volumeId}" is staged as ${other.kind}, not as ${capability.kind}`;
      throw new CsiError("failed-precondition", text);
    }
    const top = table.top(at);
    const own = await this.#parts.ownership.owns(volumeId, record, at, table);
    if (!top || !own || (record && !isStagingPath(record, staging)))
      throw new CsiError("failed-precondition", `volume "${volumeId}" is not staged at ${staging}; stage it first`);
    if (!record) {
      call.log.warn("rebuilding the missing record of a staged volume", { volumeId, stagingPath: staging });
      const made = stageRecord({ volumeId, stagingPath: staging, capability, context }, protocol, attacher, staging);
      return { ...made, flags: bindFlags(top.options), shows: { device: top.device, root: top.root } };
    }
    return record;
  }

  #check(at: string, staged: StageRecord, table: MountTable, call: Call): Promise<CheckedMount> {
    return checkMount(table.top(at), staged, this.#parts, call.signal);
  }

  /** Handles an existing mount at the target: succeeds if an equal earlier call made it. */
  async #repeated(wanted: PublishPlan, staged: StageRecord, table: MountTable, call: Call): Promise<void> {
    const { bind, entry } = wanted;
    const earlier = staged.published.find(({ target }) => target === entry.target);
    const top = table.top(bind.at);
    const identity = table.identity(bind.source);
    const wrong = mountMismatch(top, identity, bind.flags);
    if (top && !sameFolder(top, identity)) {
      const text = `${bind.at} is in use and does not show volume "${staged.volumeId}": ${wrong}`;
      throw new CsiError("failed-precondition", text);
    }
    if (earlier ? earlier.digest !== entry.digest : wrong) {
      const message = `volume "${staged.volumeId}" is published at ${bind.at} with other arguments; unpublish it first`;
      throw new CsiError("already-exists", message);
    }
    await this.#refuseWrites(staged, entry, table, call);
    if (!earlier) await this.#parts.records.save(withEntry(staged, shown(entry, identity)));
    if (lackingFlags(bind.flags, top?.options ?? []).length > 0)
      await this.#parts.mounts.protect(bind.at, identity, bind.flags, table, call.signal);
  }

  async #mount(wanted: PublishPlan, staged: StageRecord, table: MountTable, call: Call): Promise<void> {
    const { bind, entry } = wanted;
    await this.#parts.records.save(withEntry(staged, shown(entry, table.identity(bind.source))));
    let made = false;
    try {
      await this.#refuseWrites(staged, entry, table, call);
      made = await (staged.kind === "block" ? ensureFileIn : ensureFolder)(bind.at, call.signal);
      await this.#parts.mounts.bind(bind, table, call.signal);
    } catch (error) {
      if (isFinal(error)) await this.#undo(made, wanted, staged, table, call);
      throw error;
    }
  }

  /** Undoes a failed publish. A remaining entry has no effect while it is not mounted; unpublishing removes it. */
  async #undo(
    made: boolean,
    { bind, entry }: PublishPlan,
    staged: StageRecord,
    table: MountTable,
    call: Call,
  ): Promise<void> {
    try {
      await this.#acceptWrites(withEntry(staged, entry), entry.target, table, call);
      if (made) await removeMountPoint(bind.at, call.signal);
      await this.#parts.records.save(without(staged, entry.target));
    } catch (error) {
      const { volumeId } = staged;
      call.log.warn("cannot undo a failed publish", { volumeId, target: entry.target, reason: messageOf(error) });
    }
  }

  /**
   * Makes the disk of a read-only block volume refuse writes before it is published, and that of a writable one accept them if a read-only
   * publication was cut off before. A disk accepts writes either from every opener or from none, whatever the mount of its device file says
   * (MS_RDONLY of mount(2) affects file systems only). Throws "failed-precondition" while the volume is published here in the other mode.
   */
  async #refuseWrites(staged: StageRecord, entry: PublishedTarget, table: MountTable, call: Call): Promise<void> {
    if (staged.kind !== "block") return;
    const other = othersThan(entry.target, staged, table).find(each => onlyReads(each) !== onlyReads(entry));
    if (other) {
      const [now, then] = onlyReads(entry) ? ["read-only", "writable"] : ["writable", "read-only"];
      const text = `volume "${staged.volumeId}" cannot be ${now} at ${entry.target}: it is ${then} at ${other.target}, and a disk cannot be both`;
      throw new CsiError("failed-precondition", text);
    }
    const wasReadOnly = staged.published.some(each => onlyReads(each) && table.layers(each.target) === 0);
    if (onlyReads(entry) || wasReadOnly) await this.#parts.disks.protect(stagedAt(staged), onlyReads(entry), call);
  }

  /** Makes the disk writable again after its last read-only target is unmounted, unless the disk is gone. */
  async #acceptWrites(staged: StageRecord, target: string, table: MountTable, call: Call): Promise<void> {
    const entry = staged.published.find(each => each.target === target);
    if (staged.kind !== "block" || !entry || !onlyReads(entry)) return;
    if (table.layers(stagedAt(staged)) === 0 || othersThan(target, staged, table).length > 0) return;
    // The number of a lost disk may be another one's by now.
    if ((await this.#check(stagedAt(staged), staged, table, call)).state === "failed") return;
    await this.#parts.disks.protect(stagedAt(staged), false, call);
  }
}

/** The other targets at which the volume is published. */
const othersThan = (target: string, staged: StageRecord, table: MountTable): readonly PublishedTarget[] =>
  staged.published.filter(each => each.target !== target && table.layers(each.target) > 0);

/** As ensureFile, but also creates the parent folder: the kubelet does (CSI NodePublishVolume), other COs may not. */
async function ensureFileIn(path: string, signal: AbortSignal): Promise<boolean> {
  await ensureFolder(dirname(path), signal);
  return await ensureFile(path, signal);
}

/** Adds the identity by which the target is recognised even after its volume is mounted again. */
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

function wantedOf(request: PublishRequest, staged: StageRecord, staging: string, target: string): PublishPlan {
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
    staging,
    ...volume,
  };
  const from = staging === staged.stagingPath ? {} : { staging };
  return {
    bind: { source: stagedAt({ kind, stagingPath: staging }), at: target, flags },
    entry: { target, readonly, mode, digest: digest(terms), ...from },
  };
}

/** Throws if a single writer would get a second target (CSI NodePublishVolume, table of second calls). */
function refuseSecond({ entry }: PublishPlan, staged: StageRecord, table: MountTable): void {
  const others = othersThan(entry.target, staged, table);
  const modes = [entry.mode, staged.mode, ...others.map(({ mode }) => mode)];
  const [other] = others;
  if (!other || !modes.includes("single-node-single-writer")) return;
  const text = `volume "${staged.volumeId}" has a single writer and is already published at ${other.target}; unpublish it there first`;
  throw new CsiError("failed-precondition", text);
}

const onlyReads = ({ readonly, mode }: Pick<PublishedTarget, "readonly" | "mode">): boolean =>
  readonly || isReadOnly(mode);

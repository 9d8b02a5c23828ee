import type { Call } from "../../core/call.ts";
import { CsiError, isFinal, messageOf } from "../../core/errors.ts";
import { mkfsOptionsKey } from "../../core/mkfs-options.ts";
import type { Mount } from "../../core/mountinfo.ts";
import type { Attached, AttachedDevice, AttachedShare, AttachRequest } from "../attach/attacher.ts";
import type { ExclusiveDisk } from "../disks/block-device.ts";
import type { Disks } from "../disks/disk-filesystems.ts";
import { isMountedAs } from "../disks/filesystems.ts";
import { type CheckedMount, checkMount } from "../health/findings.ts";
import type { NodeParts } from "../parts.ts";
import { nomadFolderOf } from "../state/mount-points.ts";
import {
  type AttachedAs,
  isSameUse,
  type MountedFilesystem,
  type StageRecord,
  type StageRecordWriter,
  stagedAt,
} from "../state/stage-records.ts";
import { ensureFile, ensureFolder } from "./files.ts";
import { lackingFlags, otherFlags } from "./flags.ts";
import { type Identity, isWithin, type MountTable, sameFolder } from "./mount-table.ts";
import { type FilesystemMount, type Mounts, mountMismatch } from "./mounts.ts";

/** Time limit for each of several servers, in milliseconds: the whole call has two minutes. */
const oneOfSeveralMs = 10_000;

/** One staging after the volume is attached. */
export interface AttachedStaging {
  readonly wanted: AttachRequest;
  readonly writer: StageRecordWriter;
  /** The record of an earlier call. */
  readonly before: StageRecord | undefined;
  /** Whether what is mounted at the staging path is the volume's, as far as records tell (MountOwnership.owns). */
  readonly isOwn: boolean;
  /** The mount table, read after attaching. */
  readonly table: MountTable;
  readonly call: Call;
}

interface StagingStep extends AttachedStaging {
  /** The path to mount the volume at. */
  readonly at: string;
}

/** Mounts attached volumes at their staging paths. */
export class VolumeMounter {
  readonly #mounts: Mounts;
  readonly #disks: Disks;
  readonly #check: (mount: Mount | undefined, step: StagingStep) => Promise<CheckedMount>;

  constructor(parts: Pick<NodeParts, "mounts" | "disks">) {
    this.#mounts = parts.mounts;
    this.#disks = parts.disks;
    this.#check = (mount, { writer, call }) => checkMount(mount, writer.record, parts, call.signal);
  }

  /** An existing mount stays if an equal earlier call made it; any other is refused as "already-exists". */
  async mount(attached: Attached, staging: AttachedStaging): Promise<void> {
    const step: StagingStep = { ...staging, at: stagedAt(staging.writer.record) };
    if (attached.kind === "folder") return await this.#folder(attached.path, step);
    if (attached.kind === "share") return await this.#share(attached, step);
    if (staging.wanted.capability.kind === "block") return await this.#file(attached, step);
    await this.#disk(attached, step);
  }

  async #folder(source: string, step: StagingStep): Promise<void> {
    const { writer, table, call, at } = step;
    const { flags, volumeId } = writer.record;
    if (isWithin(source, at) || isWithin(at, source))
      throw new CsiError("failed-precondition", `volume "${volumeId}": ${source} and the staging path ${at} overlap`);
    const left = otherFlags(step.wanted.capability.mountFlags);
    if (left.length > 0) call.log.debug("ignoring mount flags that a bind mount cannot have", { flags: left.length });
    const shows = table.identity(source);
    if (table.top(at)) return await this.#mounted(shows, undefined, step);
    await writer.save({ shows, attached: undefined });
    await ensureFolder(at, call.signal);
    await this.#mounts.bind({ source, at, flags }, table, call.signal);
  }

  async #share(share: AttachedShare, step: StagingStep): Promise<void> {
    const { writer, table, at, call } = step;
    const top = table.top(at);
    if (!top) return await this.#mountShare(share, step);
    const sources = [share.source, ...(share.alternatives ?? [])];
    const isOurs = sources.some(source => table.isOf(at, { fsType: share.fsType, source }));
    const known = (isOurs ? top : writer.record.shows) ?? matchesNothing(share.source);
    const seen = sameFolder(top, known) ? await this.#check(top, step) : undefined;
    if (seen?.state === "silent") throw seen.error;
    const halfMade = !isOurs && wasInterrupted(share, step);
    if (seen?.state === "failed" || halfMade) {
      const why = halfMade ? "an interrupted call mounted it" : "its server no longer knows it";
      call.log.warn(`mounting a staged volume again: ${why}`, { at, source: top.source });
      await this.#mounts.unmount(at, table, call);
      return await this.#mountShare(share, { ...step, table: await this.#mounts.table() });
    }
    await this.#mounted(known, { kind: "share", fsType: share.fsType, source: share.source }, step);
    await writer.save({ shows: { device: top.device, root: top.root } });
  }

  async #disk(device: AttachedDevice, given: StagingStep): Promise<void> {
    const step = await this.#withoutFailed(device, given);
    const { wanted, table, call, at } = step;
    // The device stays open meanwhile, so that its name and number stay its own.
    const held = await this.#disks.hold(device, call);
    try {
      const mounted = table.top(at) ? await this.#mountedDisk(device, step) : await this.#mountDisk(device, held, step);
      // The file system is still the failed one if something uses it that this process does not see, such as a container.
      const { state, error } = await this.#check((await this.#mounts.table()).top(at), step);
      if (state === "failed" || state === "silent") throw error;
      // Also for an existing mount: the call that made it may have been interrupted before growing it.
      if (wanted.readonly || state !== "fine") return;
      await this.grow(mounted, step.writer, call).catch((error: unknown) => {
        if (!isFinal(error)) throw error;
        call.log.warn("the file system of a staged volume does not grow", { at, reason: messageOf(error) });
      });
    } finally {
      await held.release();
    }
  }

  /** As Disks.grow, at the staging path. What the file system withholds from a pod stays in the record; no pod has to wait for it. */
  async grow(mounted: MountedFilesystem, writer: StageRecordWriter, call: Call): Promise<bigint> {
    try {
      const bytes = await this.#disks.grow(mounted, stagedAt(writer.record), call);
      await writer.save({ notGrown: undefined });
      return bytes;
    } catch (error) {
      if (isFinal(error)) await writer.save({ notGrown: messageOf(error) });
      throw error;
    }
  }

  /**
   * Unmounts a file system or device file of this volume that has failed, so that it is mounted again. If anything else shows the file
   * system, that would be the same one again, unless its disk came back as another one: throws "unavailable".
   */
  async #withoutFailed({ identity, number }: AttachedDevice, step: StagingStep): Promise<StagingStep> {
    const { writer, table, call, at } = step;
    const { attached, shows, kind } = writer.record;
    const top = table.top(at);
    if (!top || attached?.kind !== "device" || attached.identity !== identity) return step;
    if (!shows || !table.shows(at, shows)) return step;
    const { state, error } = await this.#check(top, step);
    const isAnother = kind === "block" || (state === "failed" && attached.number !== number);
    const isInUse = !isAnother && table.isElsewhere(top);
    if (state === "silent" || (state === "failed" && isInUse)) throw error;
    if (state === "fine" || isInUse) return step;
    call.log.warn("mounting a staged volume again", { at, reason: messageOf(error) });
    await this.#mounts.unmount(at, table, call);
    return { ...step, table: await this.#mounts.table() };
  }

  async #mountDisk(device: AttachedDevice, held: ExclusiveDisk, step: StagingStep): Promise<MountedFilesystem> {
    const { wanted, writer, call } = step;
    const { volumeId, fsType, context, attached } = writer.record;
    const formerly = attached?.kind === "device" ? attached.mounted?.fsType : undefined;
    const request = { volumeId, fsType, formerly, readonly: wanted.readonly, mkfsOptions: context[mkfsOptionsKey] };
    const mountable = await this.#disks.prepare(device, request, call);
    const mounted = { source: mountable.source, number: mountable.number, fsType: mountable.fsType };
    const options = [...mountable.options, ...otherFlags(wanted.capability.mountFlags)];
    await held.prove();
    await this.#mount({ ...mountable, options }, { ...keptDevice(device), mounted }, step);
    return mounted;
  }

  /**
   * Accepts a mounted file system unprepared, because it is in use. It must be the recorded one on the same disk; without a record, as for a
   * volume that democratic-csi has staged, one that the kernel has mounted from this disk.
   */
  async #mountedDisk(device: AttachedDevice, step: StagingStep): Promise<MountedFilesystem> {
    const { writer, table, at } = step;
    const { attached, shows, fsType } = writer.record;
    const top = table.top(at);
    const recorded =
      attached?.kind === "device" && attached.identity === device.identity ? attached.mounted : undefined;
    const mounted = attached ? recorded : mountOf(device, top, fsType);
    const isOurs = mounted && (top?.device === mounted.number || table.isOf(at, mounted));
    const known = attached ?? (mounted && { ...keptDevice(device), mounted });
    await this.#mounted((isOurs ? top : undefined) ?? shows ?? matchesNothing(device.path), known, step);
    if (mounted) return mounted;
    throw new CsiError("already-exists", `${at} shows a different disk from ${device.path}; unmount it first`);
  }

  /** Block access: binds the device file to a file in the staging folder. */
  async #file(device: AttachedDevice, given: StagingStep): Promise<void> {
    const step = await this.#withoutFailed(device, given);
    const { writer, table, call, at } = step;
    const shows = table.identity(device.path);
    const { attached } = writer.record;
    if (table.top(at)) {
      if (attached?.kind === "device" && attached.identity !== device.identity)
        throw new CsiError("already-exists", `${at} shows a different disk from ${device.path}; unmount it first`);
      return await this.#mounted(shows, keptDevice(device), step);
    }
    const held = await this.#disks.hold(device, call);
    try {
      await writer.save({ shows, attached: keptDevice(device) });
      await ensureFolder(writer.record.stagingPath, call.signal);
      await ensureFile(at, call.signal);
      await held.prove();
      const { path: source, number } = device;
      await this.#mounts.bind({ source, at, flags: writer.record.flags, number }, table, call.signal);
    } finally {
      await held.release();
    }
  }

  /** Tries the sources in order while they do not answer. */
  async #mountShare(share: AttachedShare, step: StagingStep): Promise<void> {
    const { alternatives = [], fsType } = share;
    for (const [index, source] of [share.source, ...alternatives].entries()) {
      const isLast = index === alternatives.length;
      try {
        const timeoutMs = isLast ? {} : { timeoutMs: oneOfSeveralMs };
        return await this.#mount({ ...share, source, ...timeoutMs }, { kind: "share", fsType, source }, step);
      } catch (error) {
        if (isLast || isFinal(error) || step.call.signal.aborted) throw error;
        step.call.log.warn("a server of a volume does not answer; trying the next one", { source });
      }
    }
  }

  /** In Nomad's folder, a writer may follow the reader of a share: there, "ro" belongs to the mount, not to its file system. */
  async #mount(
    what: Omit<FilesystemMount, "at" | "flags">,
    attached: AttachedAs,
    { writer, table, call, at }: StagingStep,
  ): Promise<void> {
    await writer.save({ attached, shows: undefined });
    await ensureFolder(at, call.signal);
    const { flags } = writer.record;
    const isMountOnly = attached.kind === "share" && nomadFolderOf(at, table) !== undefined;
    const ofFilesystem = isMountOnly ? flags.filter(flag => flag !== "ro") : flags;
    const shows = await this.#mounts.mount({ ...what, at, flags: ofFilesystem }, table, call.signal);
    await writer.save({ shows });
    if (ofFilesystem.length < flags.length)
      await this.#mounts.protect(at, shows, flags, await this.#mounts.table(), call.signal);
  }

  /** Handles an existing mount: succeeds if an equal earlier call made it, and protects it if that call did not. */
  async #mounted(shows: Identity, attached: AttachedAs | undefined, step: StagingStep): Promise<void> {
    const { writer, before, table, call, at } = step;
    const { flags, volumeId } = writer.record;
    const top = table.top(at);
    const wrong = mountMismatch(top, shows, flags);
    const unprotected = top && sameFolder(top, shows) && lackingFlags(flags, top.options).length > 0;
    if (wrong && !(unprotected && isSameUse(before, writer.record))) {
      const text = `${at} is mounted, but not as volume "${volumeId}" requires: ${wrong}; unmount it first`;
      throw new CsiError("already-exists", text);
    }
    await writer.save({ shows, attached });
    if (unprotected) await this.#mounts.protect(at, shows, flags, table, call.signal);
  }
}

/**
 * Whether an equal call ended after mounting the share and before recording the mount. It may have another source: the share's own program
 * chooses one, and of NFS, the kernel shows every mount of a file system under the name of the server that was used first (nfs_show_devname).
 */
function wasInterrupted({ program, source, alternatives = [], fsType }: AttachedShare, step: StagingStep): boolean {
  const { before, isOwn, table, at } = step;
  if (!isOwn || before?.attached?.kind !== "share" || before.shows) return false;
  const isAsked = [source, ...alternatives].includes(before.attached.source);
  return isAsked && (program !== undefined || table.isOfType(at, fsType));
}

/** The file system of a whole disk that is mounted, if it is of the requested type. One on several disks has a number of its own. */
const mountOf = (
  { path, number }: AttachedDevice,
  top: Mount | undefined,
  asked: string | undefined,
): MountedFilesystem | undefined =>
  top?.device === number && top.root === "/" && isMountedAs(asked, top.fsType)
    ? { source: path, number, fsType: top.fsType }
    : undefined;

const keptDevice = ({ kind, path, number, identity }: AttachedDevice) => ({ kind, path, number, identity });

/** An identity that no mount has. */
const matchesNothing = (source: string): Identity => ({ device: "", root: source });

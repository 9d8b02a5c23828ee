import type { Call } from "../../core/call.ts";
import { CsiError, isFinal } from "../../core/errors.ts";
import type { Attached, AttachedDevice, AttachedFolder, AttachedShare, AttachRequest } from "../attach/attacher.ts";
import type { Disks, HeldDevice } from "../disks/disks.ts";
import { serverSilent } from "../health/mount-health.ts";
import { isSameStaging, type StageRecordWriter } from "../state/record-writer.ts";
import { type AttachedAs, type MountedFilesystem, type StageRecord, stagedAt } from "../state/stage-records.ts";
import { lackingFlags, otherFlags } from "./flags.ts";
import { ensureFile, ensureFolder } from "./mount-points.ts";
import { type Identity, isWithin, type MountTable, sameFolder } from "./mount-table.ts";
import { type FilesystemMount, type Mounts, mountMismatch } from "./mounts.ts";

/** How long one of several servers may take, in milliseconds: the call has two minutes for all. */
const oneOfSeveralMs = 10_000;

/** One staging that has come to the point where the volume is attached. */
interface StagingStep {
  readonly wanted: AttachRequest;
  readonly draft: StageRecordWriter;
  readonly before: StageRecord | undefined;
  readonly table: MountTable;
  readonly call: Call;
  /** Where the volume is to be seen. */
  readonly at: string;
}

/** Makes attached volumes visible where they are staged, each kind its own way. */
export class StagingMounts {
  readonly #mounts: Mounts;
  readonly #disks: Disks;

  constructor(mounts: Mounts, disks: Disks) {
    this.#mounts = mounts;
    this.#disks = disks;
  }

  /**
   * Something may be mounted there already: an equal earlier call's mount is kept, another one is refused as "already-exists".
   * `table` is of after the attaching.
   */
  async mount(
    attached: Attached,
    wanted: AttachRequest,
    draft: StageRecordWriter,
    before: StageRecord | undefined,
    table: MountTable,
    call: Call,
  ): Promise<void> {
    const scene: StagingStep = { wanted, draft, before, table, call, at: stagedAt(draft.record) };
    if (attached.kind === "folder") return await this.#folder(attached, scene);
    if (attached.kind === "share") return await this.#share(attached, scene);
    if (wanted.capability.kind === "block") return await this.#file(attached, scene);
    await this.#disk(attached, scene);
  }

  async #folder({ path: source }: AttachedFolder, scene: StagingStep): Promise<void> {
    const { draft, table, call, at } = scene;
    const { flags, volumeId } = draft.record;
    if (isWithin(source, at) || isWithin(at, source)) {
      throw new CsiError(
        "failed-precondition",
        `volume "${volumeId}": ${source} and the staging path ${at} lie within each other`,
      );
    }
    const left = otherFlags(scene.wanted.capability.mountFlags);
    if (left.length > 0)
      call.log.debug("mount flags that a bind mount cannot carry were left out", { flags: left.length });
    const shows = table.identity(source);
    if (table.top(at)) return await this.#mounted(shows, undefined, scene);
    await draft.save({ shows, attached: undefined });
    await ensureFolder(at, call.signal);
    await this.#mounts.bind({ source, at, flags }, table, call.signal);
  }

  async #share(share: AttachedShare, scene: StagingStep): Promise<void> {
    const { draft, table, at, call } = scene;
    const top = table.top(at);
    if (!top) return await this.#mountShare(share, scene);
    const sources = [share.source, ...(share.alternatives ?? [])];
    const isOurs = sources.some(source => table.isOf(at, { fsType: share.fsType, source }));
    const known = (isOurs ? top : draft.record.shows) ?? matchesNothing(share.source);
    const health = sameFolder(top, known) ? await this.#mounts.health(top, call.signal) : "fine";
    if (health === "silent") throw serverSilent(draft.record.volumeId, top);
    const halfMade = !isOurs && wasInterrupted(share, scene.before);
    if (health === "stale" || halfMade) {
      const why = halfMade ? "was mounted by a call that was interrupted" : "is unknown to its server";
      call.log.warn(`a staged volume ${why} and is mounted anew`, { at, source: top.source });
      await this.#mounts.unmount(at, table, call);
      return await this.#mountShare(share, { ...scene, table: await this.#mounts.table() });
    }
    await this.#mounted(known, { kind: "share", fsType: share.fsType, source: share.source }, scene);
    await draft.save({ shows: { device: top.device, root: top.root } });
  }

  async #disk(device: AttachedDevice, scene: StagingStep): Promise<void> {
    const { wanted, draft, table, call, at } = scene;
    if (await this.#isDead(device, scene)) {
      call.log.warn("the disk of a staged volume was lost and has come back as another one; it is mounted anew", {
        at,
      });
      await this.#mounts.unmount(at, table, call);
      return await this.#disk(device, { ...scene, table: await this.#mounts.table() });
    }
    await this.#whileHeld(device, call, async held => {
      const mounted = table.top(at)
        ? await this.#mountedDisk(device, scene)
        : await this.#mountDisk(device, held, scene);
      // Also when it is mounted already: the call that mounted it may have been interrupted before it was grown.
      if (!wanted.readonly) await this.#disks.grow({ volumeId: draft.record.volumeId, ...mounted, at }, call);
    });
  }

  /** Its name and number are nobody else's while this runs. */
  async #whileHeld(device: AttachedDevice, call: Call, work: (held: HeldDevice) => Promise<void>): Promise<void> {
    const held = await this.#disks.hold(device, call);
    try {
      await work(held);
    } finally {
      await held.release();
    }
  }

  /** Whether what is mounted is this volume's, of a disk that the kernel has no more: nothing of it will ever be read or written. */
  async #isDead({ identity, number }: AttachedDevice, { draft, table, at }: StagingStep): Promise<boolean> {
    const { attached, shows } = draft.record;
    if (attached?.kind !== "device" || attached.identity !== identity || attached.number === number) return false;
    const isOurs = shows !== undefined && table.shows(at, shows);
    return isOurs && (await this.#disks.isGone(attached.mounted?.number ?? attached.number));
  }

  async #mountDisk(device: AttachedDevice, held: HeldDevice, scene: StagingStep): Promise<MountedFilesystem> {
    const { wanted, draft, call } = scene;
    const { volumeId, fsType } = draft.record;
    const mountable = await this.#disks.prepare(device, { volumeId, fsType, readonly: wanted.readonly }, call);
    const mounted = { source: mountable.source, number: mountable.number, fsType: mountable.fsType };
    const options = [...mountable.options, ...otherFlags(wanted.capability.mountFlags)];
    await held.prove();
    await this.#mount({ ...mountable, options }, { ...keptDevice(device), mounted }, scene);
    return mounted;
  }

  /** A file system that is mounted already is not prepared again: it is in use. It must be the recorded one, on the same disk. */
  async #mountedDisk(device: AttachedDevice, scene: StagingStep): Promise<MountedFilesystem> {
    const { draft, table, at } = scene;
    const { attached, shows } = draft.record;
    const mounted = attached?.kind === "device" && attached.identity === device.identity ? attached.mounted : undefined;
    const top = table.top(at);
    const isOurs = mounted && (top?.device === mounted.number || table.isOf(at, mounted));
    await this.#mounted((isOurs ? top : undefined) ?? shows ?? matchesNothing(device.path), attached, scene);
    if (mounted) return mounted;
    throw new CsiError("already-exists", `${at} shows another disk than ${device.path}; unmount it first`);
  }

  /** Block access: the device file itself is bound to a file in the staging folder. */
  async #file(device: AttachedDevice, scene: StagingStep): Promise<void> {
    const { draft, table, call, at } = scene;
    const shows = table.identity(device.path);
    const { attached } = draft.record;
    if (table.top(at)) {
      if (attached?.kind === "device" && attached.identity !== device.identity)
        throw new CsiError("already-exists", `${at} shows another disk than ${device.path}; unmount it first`);
      return await this.#mounted(shows, keptDevice(device), scene);
    }
    await this.#whileHeld(device, call, async held => {
      await draft.save({ shows, attached: keptDevice(device) });
      await ensureFolder(draft.record.stagingPath, call.signal);
      await ensureFile(at, call.signal);
      await held.prove();
      const { path: source, number } = device;
      await this.#mounts.bind({ source, at, flags: draft.record.flags, number }, table, call.signal);
    });
  }

  /** A source that does not answer gives way to the next one, if there is one. */
  async #mountShare(share: AttachedShare, scene: StagingStep): Promise<void> {
    const { alternatives = [], fsType } = share;
    for (const [index, source] of [share.source, ...alternatives].entries()) {
      const isLast = index === alternatives.length;
      try {
        const timeoutMs = isLast ? {} : { timeoutMs: oneOfSeveralMs };
        return await this.#mount({ ...share, source, ...timeoutMs }, { kind: "share", fsType, source }, scene);
      } catch (error) {
        if (isLast || isFinal(error) || scene.call.signal.aborted) throw error;
        scene.call.log.warn("a server of a volume does not answer, the next one is tried", { source });
      }
    }
  }

  async #mount(
    what: Omit<FilesystemMount, "at" | "flags">,
    attached: AttachedAs,
    { draft, table, call, at }: StagingStep,
  ): Promise<void> {
    await draft.save({ attached, shows: undefined });
    await ensureFolder(at, call.signal);
    const shows = await this.#mounts.mount({ ...what, at, flags: draft.record.flags }, table, call.signal);
    await draft.save({ shows });
  }

  /** Something is mounted there: success when it is what an equal earlier call mounted, or was about to protect. */
  async #mounted(shows: Identity, attached: AttachedAs | undefined, scene: StagingStep): Promise<void> {
    const { draft, before, table, call, at } = scene;
    const { flags, volumeId } = draft.record;
    const top = table.top(at);
    const wrong = mountMismatch(top, shows, flags);
    const unprotected = top && sameFolder(top, shows) && lackingFlags(flags, top.options).length > 0;
    if (wrong && !(unprotected && isSameStaging(before, draft.record))) {
      throw new CsiError(
        "already-exists",
        `${at} is mounted but not as volume "${volumeId}" needs it: ${wrong}; unmount it first`,
      );
    }
    await draft.save({ shows, attached });
    if (unprotected) await this.#mounts.protect(at, shows, flags, table, call.signal);
  }
}

/**
 * Whether a call with this record ended between the start of the share's own program and the note of what it mounted. What mount(8)
 * mounts bears the name of its source; such a program may call it otherwise.
 */
const wasInterrupted = ({ program, source }: AttachedShare, before: StageRecord | undefined): boolean =>
  program !== undefined && before?.attached?.kind === "share" && before.attached.source === source && !before.shows;

const keptDevice = ({ path, number, identity }: AttachedDevice) => ({
  kind: "device" as const,
  path,
  number,
  identity,
});

/** What no mount shows. */
const matchesNothing = (source: string): Identity => ({ device: "", root: source });

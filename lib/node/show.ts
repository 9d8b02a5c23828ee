import type { Call } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import type { Attached, Device, Folder, Share, Wanted } from "./attacher.ts";
import type { Disks, HeldDevice } from "./disks.ts";
import { type Draft, isRepeated } from "./draft.ts";
import { ensureFile, ensureFolder } from "./entries.ts";
import { lackingFlags, otherFlags } from "./flags.ts";
import { silent } from "./health.ts";
import { type Identity, isWithin, type MountTable, sameFolder } from "./mount-table.ts";
import { type FileSystem, type Mounts, misfit } from "./mounts.ts";
import { type Kept, type Mounted, type StageRecord, stagedAt } from "./records.ts";

/** How long one of several servers may take, in milliseconds: the call has two minutes for all. */
const oneOfSeveralMs = 10_000;

/** One staging that has come to the point where the volume is attached. */
interface Scene {
  readonly wanted: Wanted;
  readonly draft: Draft;
  readonly before: StageRecord | undefined;
  readonly table: MountTable;
  readonly call: Call;
  /** Where the volume is to be seen. */
  readonly at: string;
}

/** Makes attached volumes visible where they are staged, each kind its own way. */
export class Showing {
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
  async show(
    attached: Attached,
    wanted: Wanted,
    draft: Draft,
    before: StageRecord | undefined,
    table: MountTable,
    call: Call,
  ): Promise<void> {
    const scene: Scene = { wanted, draft, before, table, call, at: stagedAt(draft.record) };
    if (attached.kind === "folder") return await this.#folder(attached, scene);
    if (attached.kind === "share") return await this.#share(attached, scene);
    if (wanted.capability.kind === "block") return await this.#file(attached, scene);
    await this.#disk(attached, scene);
  }

  async #folder({ path: source }: Folder, scene: Scene): Promise<void> {
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
    if (table.top(at)) return await this.#again(shows, undefined, scene);
    await draft.save({ shows, attached: undefined });
    await ensureFolder(at, call.signal);
    await this.#mounts.bind({ source, at, flags }, table, call.signal);
  }

  async #share(share: Share, scene: Scene): Promise<void> {
    const { draft, table, at, call } = scene;
    const top = table.top(at);
    if (!top) return await this.#mountShare(share, scene);
    const sources = [share.source, ...(share.alternatives ?? [])];
    const isOurs = sources.some(source => table.isOf(at, { fsType: share.fsType, source }));
    const known = (isOurs ? top : draft.record.shows) ?? unlike(share.source);
    const health = sameFolder(top, known) ? await this.#mounts.health(top, call.signal) : "fine";
    if (health === "silent") throw silent(draft.record.volumeId, top);
    const halfMade = !isOurs && wasInterrupted(share, scene.before);
    if (health === "stale" || halfMade) {
      const why = halfMade ? "was mounted by a call that was interrupted" : "is unknown to its server";
      call.log.warn(`a staged volume ${why} and is mounted anew`, { at, source: top.source });
      await this.#mounts.unmount(at, table, call);
      return await this.#mountShare(share, { ...scene, table: await this.#mounts.table() });
    }
    await this.#again(known, { kind: "share", fsType: share.fsType, source: share.source }, scene);
    await draft.save({ shows: { device: top.device, root: top.root } });
  }

  async #disk(device: Device, scene: Scene): Promise<void> {
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
  async #whileHeld(device: Device, call: Call, work: (held: HeldDevice) => Promise<void>): Promise<void> {
    const held = await this.#disks.hold(device, call);
    try {
      await work(held);
    } finally {
      await held.release();
    }
  }

  /** Whether what is mounted is this volume's, of a disk that the kernel has no more: nothing of it will ever be read or written. */
  async #isDead({ identity, number }: Device, { draft, table, at }: Scene): Promise<boolean> {
    const { attached, shows } = draft.record;
    if (attached?.kind !== "device" || attached.identity !== identity || attached.number === number) return false;
    const isOurs = shows !== undefined && table.shows(at, shows);
    return isOurs && (await this.#disks.isGone(attached.mounted?.number ?? attached.number));
  }

  async #mountDisk(device: Device, held: HeldDevice, scene: Scene): Promise<Mounted> {
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
  async #mountedDisk(device: Device, scene: Scene): Promise<Mounted> {
    const { draft, table, at } = scene;
    const { attached, shows } = draft.record;
    const mounted = attached?.kind === "device" && attached.identity === device.identity ? attached.mounted : undefined;
    const top = table.top(at);
    const isOurs = mounted && (top?.device === mounted.number || table.isOf(at, mounted));
    await this.#again((isOurs ? top : undefined) ?? shows ?? unlike(device.path), attached, scene);
    if (mounted) return mounted;
    throw new CsiError("already-exists", `${at} shows another disk than ${device.path}; unmount it first`);
  }

  /** Block access: the device file itself is bound to a file in the staging folder. */
  async #file(device: Device, scene: Scene): Promise<void> {
    const { draft, table, call, at } = scene;
    const shows = table.identity(device.path);
    const { attached } = draft.record;
    if (table.top(at)) {
      if (attached?.kind === "device" && attached.identity !== device.identity)
        throw new CsiError("already-exists", `${at} shows another disk than ${device.path}; unmount it first`);
      return await this.#again(shows, keptDevice(device), scene);
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
  async #mountShare(share: Share, scene: Scene): Promise<void> {
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
    what: Omit<FileSystem, "at" | "flags">,
    attached: Kept,
    { draft, table, call, at }: Scene,
  ): Promise<void> {
    await draft.save({ attached, shows: undefined });
    await ensureFolder(at, call.signal);
    const shows = await this.#mounts.mount({ ...what, at, flags: draft.record.flags }, table, call.signal);
    await draft.save({ shows });
  }

  /** Something is mounted there: success when it is what an equal earlier call mounted, or was about to protect. */
  async #again(shows: Identity, attached: Kept | undefined, scene: Scene): Promise<void> {
    const { draft, before, table, call, at } = scene;
    const { flags, volumeId } = draft.record;
    const top = table.top(at);
    const wrong = misfit(top, shows, flags);
    const unprotected = top && sameFolder(top, shows) && lackingFlags(flags, top.options).length > 0;
    if (wrong && !(unprotected && isRepeated(before, draft.record))) {
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
const wasInterrupted = ({ program, source }: Share, before: StageRecord | undefined): boolean =>
  program !== undefined && before?.attached?.kind === "share" && before.attached.source === source && !before.shows;

const keptDevice = ({ path, number, identity }: Device) => ({ kind: "device" as const, path, number, identity });

/** What no mount shows. */
const unlike = (source: string): Identity => ({ device: "", root: source });

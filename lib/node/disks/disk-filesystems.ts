import { statfs } from "node:fs/promises";
import { defaultFilesystem } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { mkfsOptions } from "../../core/mkfs-options.ts";
import { type Argv, type CommandRunner, complaint, failed, run, runToSuccess } from "../../io/runner.ts";
import type { AttachedDevice } from "../attach/attacher.ts";
import { bounded } from "../mount/files.ts";
import type { FilesystemMount } from "../mount/mounts.ts";
import type { MountedFilesystem } from "../state/stage-records.ts";
import { type BlockDevice, BlockDevices, type ExclusiveDisk, openExclusively } from "./block-device.ts";
import { type Contents, DiskReader } from "./contents.ts";
import { FilesystemMaker } from "./filesystem-maker.ts";
import { type Filesystem, filesystemMountedAs, filesystemName, filesystems } from "./filesystems.ts";

/** Time limit for a check, which reads the whole file system, in milliseconds; the call usually ends before. */
const checkMs = 600_000;

/** How one file system is checked before it is mounted. */
export interface CheckSettings {
  readonly enabled: boolean;
  /** Arguments of the checking tool; if not empty, they replace csimux's own. */
  readonly options: readonly string[];
}

/** The settings for file systems in the `node:` block of the main file, by the file systems' names. */
export interface DiskSettings {
  readonly check: Readonly<Record<string, CheckSettings>>;
  /** Additional arguments of mkfs. */
  readonly format: Readonly<Record<string, readonly string[]>>;
}

/** The dependencies of DiskFilesystems. */
export interface DiskPorts {
  readonly runner: CommandRunner;
  /** /sys outside tests. */
  readonly sys: string;
  /** The folder of format records; must survive restarts. */
  readonly folder: string;
  readonly settings: DiskSettings;
}

/** A request to make a device mountable. */
export interface PrepareRequest {
  readonly volumeId: string;
  /** The requested type; undefined accepts the existing type, and the default for an empty device. */
  readonly fsType: string | undefined;
  /** The type that the mount table showed for an earlier mount of the volume. */
  readonly formerly?: string | undefined;
  /** True if nothing may be written: no format, no repair, no growing, no journal replay. */
  readonly readonly: boolean;
  /** What the class gives for mkfs, instead of the settings of the node; undefined: nothing. */
  readonly mkfsOptions?: string | undefined;
}

/**
 * The arguments of mount(8) for a device, with options that its file system needs, such as "nouuid", or "norecovery" for
 * read-only use. `source` is the device file, of the device itself or one of its partitions.
 */
export type Mountable = MountedFilesystem & Pick<FilesystemMount, "options" | "errorPatterns">;

/** What the node uses of DiskFilesystems. */
export type Disks = Pick<DiskFilesystems, keyof DiskFilesystems>;

/**
 * File systems on this node's disks. Writes to a disk only if it is provably empty or holds the requested file system.
 * Every operation is idempotent and may be interrupted after any step.
 */
export class DiskFilesystems {
  readonly #runner: CommandRunner;
  readonly #devices: BlockDevices;
  readonly #maker: FilesystemMaker;
  readonly #settings: DiskSettings;

  constructor({ runner, sys, folder, settings }: DiskPorts) {
    this.#runner = runner;
    this.#settings = settings;
    this.#devices = new BlockDevices(sys);
    this.#maker = new FilesystemMaker(runner, folder);
  }

  /**
   * Opens a device, proves that it is the one that was attached, and keeps the kernel from giving its name and number
   * to another disk until `release`. Throws "unavailable" if it is gone or has been replaced.
   */
  hold(device: AttachedDevice, call: Call): Promise<ExclusiveDisk> {
    return openExclusively(this.#devices, device, call.signal);
  }

  /**
   * Finds or makes the file system of a device that is not yet mounted for this volume, and checks it if so configured.
   * Formats only a device that is provably empty, or provably left in this state by an interrupted format of csimux.
   * Throws "invalid-argument" for an unknown type, "failed-precondition" for a device that it must not touch.
   */
  async prepare(attached: AttachedDevice, wanted: PrepareRequest, call: Call): Promise<Mountable> {
    const asked = wanted.fsType === undefined ? undefined : filesystemName(wanted.fsType);
    if (wanted.fsType !== undefined && asked === undefined) {
      const text = `volume "${wanted.volumeId}": the file system "${wanted.fsType}" is not supported`;
      throw new CsiError("invalid-argument", text);
    }
    const held = await openExclusively(this.#devices, attached, call.signal);
    try {
      const disk = await this.#devices.at(attached.path);
      const parts = await this.#devices.partitions(disk);
      const device = await this.#devices.at(parts.at(-1) ?? attached.path);
      await this.#refuseHeld(device);
      const mayMake = parts.length === 0;
      const type = await this.#typeOf(device, asked, { ...wanted, mayMake }, held, call);
      const filesystem = knownType(type, device.path);
      if (!wanted.readonly) await this.#check(type, filesystem, device, call);
      await held.prove();
      const { mountType, flags, readOnlyFlags, words } = filesystem;
      const options = [...flags, ...(wanted.readonly ? readOnlyFlags : [])];
      const { path: source, number } = device;
      return { source, number, fsType: mountType, options, ...(words && { errorPatterns: words }) };
    } finally {
      await held.release();
    }
  }

  /** The size of the disk behind a device file. Throws "unavailable" when it is gone. */
  async bytes(path: string): Promise<bigint> {
    return (await this.#devices.at(path)).bytes;
  }

  /** Whether the kernel has no disk of this number any more. Throws "unavailable" if sysfs cannot be read. */
  async isGone(number: string): Promise<boolean> {
    return !(await this.#devices.has(number));
  }

  /**
   * Grows the file system mounted at `at` to the size of its device, if necessary and possible, and returns the bytes that it has then: those
   * of the device, or what it says itself if csimux does not grow it. Also called after every writable mount. Throws "failed-precondition"
   * if the file system does not grow.
   */
  async grow({ source, number, fsType }: MountedFilesystem, at: string, call: Call): Promise<bigint> {
    const filesystem = filesystemMountedAs(fsType);
    const disk = await this.#devices.at(source);
    if (disk.number !== number) {
      const text = `${source} is now a different disk (${disk.number}) from the one mounted at ${at} (${number}); its file system is not grown`;
      throw new CsiError("unavailable", text);
    }
    if (!filesystem?.grow || disk.bytes < (filesystem.growsFrom ?? 0n)) {
      const { blocks, bsize } = await bounded(statfs(at, { bigint: true }), `measuring ${at}`, call.signal);
      return blocks * bsize;
    }
    const task = `growing the file system on ${source}`;
    const output = await run(this.#runner, { argv: filesystem.grow(source, at) }, task, call.signal);
    if (output.exitCode === 0) return disk.bytes;
    const { message } = failed(output, task);
    const text = (await this.#hasErrors(filesystem, disk, call))
      ? `${fsType} on ${source} has recorded errors, so the kernel does not grow it: end all pods that use it on this node, then it is checked and grown (${message})`
      : message;
    throw new CsiError("failed-precondition", text);
  }

  async #hasErrors({ errors }: Filesystem, device: BlockDevice, call: Call): Promise<boolean> {
    if (!errors) return false;
    const [state = 0] = await new DiskReader(device, this.#runner, call.signal).bytes(errors.at, 1);
    return (state & errors.bit) !== 0;
  }

  /**
   * Makes the kernel refuse all writes to a disk, or accept them again: a read-only bind mount of a device file does
   * not prevent writes to the device. Throws "unavailable".
   */
  async protect(path: string, isProtected: boolean, call: Call): Promise<void> {
    const task = `making ${path} ${isProtected ? "read-only" : "writable"}`;
    const argv = ["blockdev", isProtected ? "--setro" : "--setrw", path] as const;
    await runToSuccess(this.#runner, { argv }, task, call.signal);
  }

  /** The type of the file system found or made. Throws "failed-precondition" instead of guessing. */
  async #typeOf(
    device: BlockDevice,
    asked: string | undefined,
    wanted: PrepareRequest & { readonly mayMake: boolean },
    held: ExclusiveDisk,
    call: Call,
  ): Promise<string> {
    const { path } = device;
    const format = await this.#maker.unfinished(wanted.volumeId);
    const type = asked ?? format?.type ?? filesystemName(wanted.formerly ?? "") ?? defaultFilesystem;
    const disk = new DiskReader(device, this.#runner, call.signal);
    const found = await disk.contents(type);
    // Proves that the disk that was inspected, and is about to be written to, is still the one that was attached.
    await held.prove();
    if (format && (await this.#maker.isUnfinished(device, format, found, call))) {
      refuseMaking(wanted, path);
      if (format.type !== type) throw mismatch(path, format.type, type);
      await this.#maker.repeat(device, format, this.#options(type, wanted), call);
      return type;
    }
    if (found.kind === "filesystem") {
      if (asked && found.type !== asked) throw await refused(disk, path, found, asked);
      if (!format) {
        if (!wanted.readonly) await this.#maker.removeMark(device, found.type, call);
        return found.type;
      }
      // An interrupted format left a file system. If its tool signs first, a check must pass.
      const filesystem = knownType(found.type, path);
      if (!filesystem.signedLast) await this.#checked(filesystem, filesystem.check.argv, path, call);
      if (found.type === format.type) await this.#maker.finish(device, format, call);
      return found.type;
    }
    if (found.kind !== "blank") throw await refused(disk, path, found, asked);
    refuseMaking(wanted, path);
    await this.#maker.make(device, { volumeId: wanted.volumeId, type, options: this.#options(type, wanted) }, call);
    return type;
  }

  /** The volume's context comes from outside, so it is judged here again. */
  #options(type: string, { mkfsOptions: given }: PrepareRequest): readonly string[] {
    return given ? mkfsOptions(given, type) : (this.#settings.format[type] ?? []);
  }

  /** As the node's settings say; without them, only a file system that says itself that it has errors. */
  async #check(type: string, filesystem: Filesystem, device: BlockDevice, call: Call): Promise<void> {
    const settings = this.#settings.check[type];
    if (!settings?.enabled && !(await this.#hasErrors(filesystem, device, call))) return;
    const [program, ...words] = filesystem.check.argv;
    const options = settings?.enabled && settings.options.length > 0 ? settings.options : words;
    await this.#checked(filesystem, [program, ...options], device.path, call);
  }

  async #checked({ check }: Filesystem, argv: Argv, path: string, call: Call): Promise<void> {
    const task = `checking ${path}`;
    const output = await run(this.#runner, { argv: [...argv, path], timeoutMs: checkMs }, task, call.signal);
    if (check.fixed.includes(output.exitCode)) return;
    if (check.undecided !== undefined && `${output.stdout}${output.stderr}`.includes(check.undecided)) return;
    const reason = complaint(output) || "no reason given";
    // An operational error (e2fsck(8)), such as a disk that another program still has mounted.
    if (output.exitCode === 8)
      throw new CsiError("unavailable", `${task} failed (${reason}), as in use; end all pods that use it on this node`);
    const text = `${task}: ${argv[0]} found errors (exit code ${output.exitCode}): ${reason}; repair the file system manually`;
    throw new CsiError("failed-precondition", text);
  }

  /** Refuses a disk that others are built on: contents mislead, as for one path of several or a member of an array. */
  async #refuseHeld(device: BlockDevice): Promise<void> {
    const holders = await this.#devices.holders(device);
    if (holders.length === 0) return;
    const text = `${device.path} is in use by ${holders.join(", ")}; it cannot be mounted or formatted`;
    throw new CsiError("failed-precondition", text);
  }
}

function knownType(type: string, path: string): Filesystem {
  const filesystem = filesystems[type];
  if (filesystem) return filesystem;
  throw new CsiError("failed-precondition", `${path} holds ${type}, which csimux does not support; it is not changed`);
}

function refuseMaking(
  { readonly, mayMake }: { readonly readonly: boolean; readonly mayMake: boolean },
  path: string,
): void {
  if (readonly)
    throw new CsiError("failed-precondition", `${path} holds no file system, and a read-only volume is not formatted`);
  if (!mayMake) {
    const text = `the partition ${path} holds no file system; csimux does not format partitions`;
    throw new CsiError("failed-precondition", text);
  }
}

const mismatch = (path: string, found: string, asked = "no file system"): CsiError =>
  new CsiError("failed-precondition", `${path} holds ${found}, but ${asked} was requested; request ${found}`);

/** Advises to erase a disk only if it holds no file system that csimux mounts. */
async function refused(disk: DiskReader, path: string, found: Contents, asked: string | undefined): Promise<CsiError> {
  const mountable: string[] = [];
  for (const type of Object.keys(filesystems)) if (await disk.holds(type)) mountable.push(type);
  if (mountable.length > 0) return mismatch(path, mountable.join(" or "), asked);
  const what =
    (found.kind === "foreign" && found.what) ||
    (found.kind === "filesystem" && `${found.type}, which csimux does not support`) ||
    `data, but no file system that blkid knows${found.kind === "unsigned" ? ` (near byte ${found.at})` : ""}`;
  const text = `${path} holds ${what}; it is not formatted. If its data is not needed, erase all of it on a node that has the disk: blkdiscard -z ${path}`;
  return new CsiError("failed-precondition", text);
}

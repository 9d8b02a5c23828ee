import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Argv, CommandRunner } from "../../io/runner.ts";
import type { AttachedDevice } from "../attach/attacher.ts";
import { type BlockDevice, BlockDevices, HeldDisk } from "./block-device.ts";
import { type Contents, complaint, contentsOf, failed, run } from "./contents.ts";
import type { DiskSettings, Disks, Mountable, MountedDisk, PrepareRequest } from "./disks.ts";
import { FilesystemMaker, type UnfinishedFormat, UnfinishedFormats } from "./filesystem-maker.ts";
import { defaultFilesystem, type Filesystem, filesystemName, filesystems } from "./filesystems.ts";

/** Time limit for a check, which reads the whole file system, in milliseconds; the call usually ends before. */
const checkMs = 600_000;

/** The dependencies of DiskFilesystems. */
export interface DiskPorts {
  readonly runner: CommandRunner;
  /** /sys outside tests. */
  readonly sys: string;
  /** The folder of format records; must survive restarts. */
  readonly folder: string;
  readonly settings: DiskSettings;
}

/** A disk, its contents, and the record of an unfinished format on it. */
interface DiskInspection {
  readonly device: BlockDevice;
  readonly format: UnfinishedFormat | undefined;
  readonly found: Contents;
}

/**
 * File systems on this node's disks. Writes to a disk only if it is provably empty or holds the requested file system.
 */
export class DiskFilesystems implements Disks {
  readonly #runner: CommandRunner;
  readonly #devices: BlockDevices;
  readonly #formats: UnfinishedFormats;
  readonly #making: FilesystemMaker;
  readonly #settings: DiskSettings;

  constructor({ runner, sys, folder, settings }: DiskPorts) {
    this.#runner = runner;
    this.#settings = settings;
    this.#devices = new BlockDevices(sys);
    this.#formats = new UnfinishedFormats(folder);
    this.#making = new FilesystemMaker(runner, this.#formats, type => settings.format[type] ?? []);
  }

  /** See Disks. */
  hold(device: AttachedDevice, call: Call): Promise<HeldDisk> {
    return HeldDisk.open(this.#devices, device, call.signal);
  }

  /** See Disks. Also throws "invalid-argument" for a type that csimux does not know. */
  async prepare(attached: AttachedDevice, wanted: PrepareRequest, call: Call): Promise<Mountable> {
    const asked = wanted.fsType === undefined ? undefined : filesystemName(wanted.fsType);
    if (wanted.fsType !== undefined && asked === undefined)
      throw new CsiError(
        "invalid-argument",
        `volume "${wanted.volumeId}": the file system "${wanted.fsType}" is not supported`,
      );
    const held = await this.hold(attached, call);
    try {
      return await this.#prepared(attached.path, held, wanted, asked, call);
    } finally {
      await held.release();
    }
  }

  async #prepared(
    path: string,
    held: HeldDisk,
    wanted: PrepareRequest,
    asked: string | undefined,
    call: Call,
  ): Promise<Mountable> {
    const disk = await this.#devices.at(path);
    const parts = await this.#devices.partitions(disk);
    const device = await this.#devices.at(parts.at(-1) ?? path);
    await this.#refuseHeld(device);
    const format = await this.#formats.find(wanted.volumeId);
    const found = await contentsOf(device, this.#runner, call.signal);
    // Proves that the disk that was inspected, and is about to be written to, is still the one that was attached.
    await held.prove();
    const type = await this.#settled(
      { device, format, found },
      asked,
      { ...wanted, mayMake: parts.length === 0 },
      call,
    );
    const filesystem = knownType(type, device.path);
    if (!wanted.readonly) await this.#check(type, filesystem, device.path, call);
    await held.prove();
    const { mountType, flags, readOnlyFlags, words } = filesystem;
    const options = [...flags, ...(wanted.readonly ? readOnlyFlags : [])];
    return {
      source: device.path,
      number: device.number,
      fsType: mountType,
      options,
      ...(words && { errorPatterns: words }),
    };
  }

  /** See Disks. */
  async bytes(path: string): Promise<bigint> {
    return (await this.#devices.at(path)).bytes;
  }

  /** See Disks. */
  async isGone(number: string): Promise<boolean> {
    return !(await this.#devices.has(number));
  }

  /** See Disks. Does nothing for a file system that cannot grow while mounted. */
  async grow({ source, number, fsType, at }: MountedDisk, call: Call): Promise<void> {
    const filesystem = Object.values(filesystems).find(({ mountType }) => mountType === fsType);
    if (!filesystem?.grow) return;
    const disk = await this.#devices.at(source);
    if (disk.number !== number)
      throw new CsiError(
        "unavailable",
        `${source} is now a different disk (${disk.number}) from the one mounted at ${at} (${number}); its file system is not grown`,
      );
    if (filesystem.growsFrom && disk.bytes < filesystem.growsFrom) return;
    const argv = filesystem.grow(source, at);
    const task = `growing the file system on ${source}`;
    const output = await run(this.#runner, { argv }, task, call.signal);
    if (output.exitCode !== 0) throw failed(output, task);
  }

  /** See Disks. */
  async protect(path: string, isProtected: boolean, call: Call): Promise<void> {
    const task = `making ${path} ${isProtected ? "read-only" : "writable"}`;
    const argv = ["blockdev", isProtected ? "--setro" : "--setrw", path] as const;
    const output = await run(this.#runner, { argv }, task, call.signal);
    if (output.exitCode !== 0) throw failed(output, task);
  }

  /** The type of the file system found or made. Throws "failed-precondition" instead of guessing. */
  async #settled(
    { device, format, found }: DiskInspection,
    asked: string | undefined,
    wanted: PrepareRequest & { readonly mayMake: boolean },
    call: Call,
  ): Promise<string> {
    const { path } = device;
    const type = asked ?? format?.type ?? defaultFilesystem;
    if (format && (await this.#making.isUnfinished(device, format, found, call.signal))) {
      refuseMaking(wanted, path);
      if (format.type !== type) throw mismatch(path, format.type, type);
      await this.#making.repeat(device, format, call);
      return type;
    }
    if (found.kind === "filesystem") {
      if (asked && found.type !== asked) throw mismatch(path, found.type, asked);
      if (format) await this.#finish(device, format, found.type, call);
      return found.type;
    }
    if (found.kind !== "blank") throw refused(path, found);
    refuseMaking(wanted, path);
    await this.#making.make(device, wanted.volumeId, type, call);
    return type;
  }

  /**
   * Completes the record of an interrupted format of which a file system is left. If its tool signs first, a check must
   * pass.
   */
  async #finish(device: BlockDevice, format: UnfinishedFormat, type: string, call: Call): Promise<void> {
    const filesystem = knownType(type, device.path);
    if (!filesystem.signedLast) await this.#checked(filesystem, filesystem.check.argv, device.path, call);
    if (type === format.type) await this.#making.settle(device, format, call.signal);
  }

  async #check(type: string, filesystem: Filesystem, path: string, call: Call): Promise<void> {
    const settings = this.#settings.check[type];
    if (!settings?.enabled) return;
    const [program, ...words] = filesystem.check.argv;
    await this.#checked(filesystem, [program, ...(settings.options.length > 0 ? settings.options : words)], path, call);
  }

  async #checked({ check }: Filesystem, argv: Argv, path: string, call: Call): Promise<void> {
    const task = `checking ${path}`;
    const output = await run(this.#runner, { argv: [...argv, path], timeoutMs: checkMs }, task, call.signal);
    if (check.fixed.includes(output.exitCode)) return;
    if (check.undecided !== undefined && `${output.stdout}${output.stderr}`.includes(check.undecided)) return;
    const reason = complaint(output) || "no reason given";
    throw new CsiError(
      "failed-precondition",
      `${task}: ${argv[0]} found errors (exit code ${output.exitCode}): ${reason}; repair the file system manually`,
    );
  }

  /**
   * Throws for a disk that other devices are built on: its contents mislead, as for one path of several or a member of
   * an array.
   */
  async #refuseHeld(device: BlockDevice): Promise<void> {
    const holders = await this.#devices.holders(device);
    if (holders.length === 0) return;
    throw new CsiError(
      "failed-precondition",
      `${device.path} is in use by ${holders.join(", ")}; it cannot be mounted or formatted`,
    );
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
  if (!mayMake)
    throw new CsiError(
      "failed-precondition",
      `the partition ${path} holds no file system; csimux does not format partitions`,
    );
}

function mismatch(path: string, found: string, asked: string): CsiError {
  const advice = Object.hasOwn(filesystems, found)
    ? `request ${found}, or erase the disk (blkdiscard -z ${path}) if its data is not needed`
    : `csimux does not support ${found} and does not format the disk; if its data is not needed, erase it (blkdiscard -z ${path})`;
  return new CsiError("failed-precondition", `${path} holds ${found}, but ${asked} was requested; ${advice}`);
}

function refused(path: string, found: Contents): CsiError {
  const what =
    found.kind === "foreign"
      ? found.what
      : `data, but no file system that blkid knows${found.kind === "unsigned" ? ` (near byte ${found.at})` : ""}`;
  return new CsiError(
    "failed-precondition",
    `${path} holds ${what}; it is not formatted. If its data is not needed, erase all of it on a node that has the disk: blkdiscard -z ${path}`,
  );
}

import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Argv, CommandRunner } from "../../io/runner.ts";
import type { AttachedDevice } from "../attach/attacher.ts";
import { type BlockDevice, BlockDevices } from "./block-device.ts";
import { type Contents, contentsOf } from "./contents.ts";
import type { Disks, Mountable, MountedDisk, PrepareRequest } from "./disks.ts";
import { FilesystemMaker } from "./filesystem-maker.ts";
import { defaultFilesystem, type Filesystem, filesystemName, filesystems } from "./filesystems.ts";
import { HeldDisk } from "./held-disk.ts";
import type { DiskSettings } from "./settings.ts";
import { complaint, failed, run } from "./tool.ts";
import { type UnfinishedFormat, UnfinishedFormats } from "./unfinished-formats.ts";

/** A check reads the whole file system; the call ends it sooner. */
const checkMs = 600_000;

/** What file systems on disks need from outside. */
export interface DiskPorts {
  readonly runner: CommandRunner;
  /** /sys outside tests. */
  readonly sys: string;
  /** A folder for the records of unfinished makings; must survive restarts. */
  readonly folder: string;
  readonly settings: DiskSettings;
}

/** A disk and what was found on it. */
interface DiskInspection {
  readonly device: BlockDevice;
  readonly begun: UnfinishedFormat | undefined;
  readonly found: Contents;
}

/** File systems on this node's disks. A disk is written to only when it is provably empty or shows what was asked for. */
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
        `volume "${wanted.volumeId}": the file system "${wanted.fsType}" is not known`,
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
    const begun = await this.#formats.find(wanted.volumeId);
    const found = await contentsOf(device, this.#runner, call.signal);
    // What was looked at, and is written to next, is still the disk that was attached.
    await held.prove();
    const type = await this.#settled({ device, begun, found }, asked, { ...wanted, mayMake: parts.length === 0 }, call);
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

  /** See Disks. What cannot grow while it is mounted stays as it is. */
  async grow({ source, number, fsType, at }: MountedDisk, call: Call): Promise<void> {
    const filesystem = Object.values(filesystems).find(({ mountType }) => mountType === fsType);
    if (!filesystem?.grow) return;
    const disk = await this.#devices.at(source);
    if (disk.number !== number)
      throw new CsiError(
        "unavailable",
        `${source} is another disk (${disk.number}) than the one that is mounted at ${at} (${number}); its file system is not grown`,
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

  /** The type of the file system that is there in the end, or is made. Throws "failed-precondition" instead of guessing. */
  async #settled(
    { device, begun, found }: DiskInspection,
    asked: string | undefined,
    wanted: PrepareRequest & { readonly mayMake: boolean },
    call: Call,
  ): Promise<string> {
    const { path } = device;
    const type = asked ?? begun?.type ?? defaultFilesystem;
    if (begun && (await this.#making.isUnfinished(device, begun, found, call.signal))) {
      refuseMaking(wanted, path);
      if (begun.type !== type) throw mismatch(path, begun.type, type);
      await this.#making.repeat(device, begun, call);
      return type;
    }
    if (found.kind === "filesystem") {
      if (asked && found.type !== asked) throw mismatch(path, found.type, asked);
      if (begun) await this.#finish(device, begun, found.type, call);
      return found.type;
    }
    if (found.kind !== "blank") throw refused(path, found);
    refuseMaking(wanted, path);
    await this.#making.make(device, wanted.volumeId, type, call);
    return type;
  }

  /** A file system stands where a making was interrupted. Where its tool signs first, only a check can tell whether it is whole. */
  async #finish(device: BlockDevice, begun: UnfinishedFormat, type: string, call: Call): Promise<void> {
    const filesystem = knownType(type, device.path);
    if (!filesystem.signedLast) await this.#checked(filesystem, filesystem.check.argv, device.path, call);
    if (type === begun.type) await this.#making.settle(device, begun, call.signal);
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
      `${task}: ${argv[0]} found errors (exit code ${output.exitCode}): ${reason}; repair the file system by hand`,
    );
  }

  /** What something else is built on is not what it looks like: one path of several, or a part of an array. */
  async #refuseHeld(device: BlockDevice): Promise<void> {
    const holders = await this.#devices.holders(device);
    if (holders.length === 0) return;
    throw new CsiError(
      "failed-precondition",
      `${device.path} is in use by ${holders.join(", ")}; it can neither be mounted nor formatted`,
    );
  }
}

function knownType(type: string, path: string): Filesystem {
  const filesystem = filesystems[type];
  if (filesystem) return filesystem;
  throw new CsiError("failed-precondition", `${path} holds ${type}, which csimux does not mount; it is left alone`);
}

function refuseMaking(
  { readonly, mayMake }: { readonly readonly: boolean; readonly mayMake: boolean },
  path: string,
): void {
  if (readonly)
    throw new CsiError("failed-precondition", `${path} holds no file system, and none is made for reading alone`);
  if (!mayMake)
    throw new CsiError(
      "failed-precondition",
      `the partition ${path} holds no file system; csimux makes none on partitions`,
    );
}

function mismatch(path: string, found: string, asked: string): CsiError {
  const advice = Object.hasOwn(filesystems, found)
    ? `ask for ${found}, or erase the disk (blkdiscard -z ${path}) if its data may go`
    : `csimux does not mount ${found}, and does not format the disk; if its data may go, erase it (blkdiscard -z ${path})`;
  return new CsiError("failed-precondition", `${path} holds ${found}, but ${asked} was asked for; ${advice}`);
}

function refused(path: string, found: Contents): CsiError {
  const what =
    found.kind === "foreign"
      ? found.what
      : `data, but no file system that blkid knows${found.kind === "unsigned" ? ` (near byte ${found.at})` : ""}`;
  return new CsiError(
    "failed-precondition",
    `${path} holds ${what}; it is not formatted. If its data may go, erase all of it on a node that has the disk: blkdiscard -z ${path}`,
  );
}

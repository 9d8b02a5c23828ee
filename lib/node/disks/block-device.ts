// lib/node/disks: block devices and their file systems. block-device.ts proves that a device is the attached volume,
// contents.ts what is on it; disk-filesystems.ts decides whether it may be formatted, filesystem-maker.ts formats.
// multipath.ts and sysfs.ts serve iSCSI and NVMe.

import { constants } from "node:fs";
import { access, type FileHandle, open, readdir, readFile, realpath, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { CsiError, errnoOf } from "../../core/errors.ts";
import type { AttachedDevice } from "../attach/attacher.ts";
import { bounded, unlessExhausted } from "../mount/files.ts";

/** A disk or a partition of this node. */
export interface BlockDevice {
  /** Its real path, such as /dev/sda. */
  readonly path: string;
  /** The kernel's name: "sda". */
  readonly name: string;
  /** "major:minor", as mountinfo shows it. */
  readonly number: string;
  readonly bytes: bigint;
  /** An id that distinguishes it from all other disks on any node; empty if it has none. */
  readonly identity: string;
}

const sectorBytes = 512n;

/** The errors of sysfs for a device that is gone or being removed. */
const removed: ReadonlySet<string> = new Set(["ENOENT", "ENODEV", "ENXIO"]);

/** The block devices of this node in sysfs. Runs no program, needs no udev and never reads from a device. */
export class BlockDevices {
  readonly #sys: string;

  /** `sys` is /sys outside tests. */
  constructor(sys: string) {
    this.#sys = sys;
  }

  /** Throws "unavailable" if the device is missing or has no size, "failed-precondition" if it is not a disk. */
  async at(path: string): Promise<BlockDevice> {
    const { real, number } = await nodeAt(path);
    const folder = join(this.#sys, "dev/block", number);
    const name = basename(await realpath(folder).catch(gone(real)));
    const bytes = BigInt(await readFile(join(folder, "size"), "utf8").catch(gone(real))) * sectorBytes;
    if (bytes > 0n) return { path: real, name, number, bytes, identity: await this.#identity(folder) };
    throw new CsiError("unavailable", `the disk ${real} reports no size; retrying`);
  }

  /** Whether the kernel has a device of this number. Throws "unavailable" if sysfs cannot be read. */
  async has(number: string): Promise<boolean> {
    const devices = join(this.#sys, "dev/block");
    try {
      await access(join(devices, number));
      return true;
    } catch (error) {
      if (!removed.has(errnoOf(error) ?? "")) throw unreadable(devices, error);
    }
    // Without the folder itself, every device in it is missing as well.
    await access(devices).catch((error: unknown) => {
      throw unreadable(devices, error);
    });
    return false;
  }

  /** Throws "unavailable" if the device of this path and number is not, or no longer, the attached volume. */
  async prove({ path, number, proof }: AttachedDevice): Promise<void> {
    const now = (await nodeAt(path)).number;
    if (now !== number) throw replaced(path, `its number is ${now}, not ${number}`);
    for (const [file, expected] of Object.entries(proof)) {
      const found = await text(join(this.#sys, file));
      if (found !== expected)
        throw replaced(path, `${file} is ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`);
    }
  }

  /** The partitions of a disk in the order of their numbers, as paths next to the disk's own. */
  async partitions(device: BlockDevice): Promise<readonly string[]> {
    const folder = join(this.#sys, "dev/block", device.number);
    const found = await Promise.all(
      (await readdir(folder).catch(gone(device.path))).map(async name => {
        const number = await text(join(folder, name, "partition"));
        return { path: join(device.path, "..", name), number: Number(number) };
      }),
    );
    return found
      .filter(({ number }) => number > 0)
      .sort((a, b) => a.number - b.number)
      .map(({ path }) => path);
  }

  /** The names of devices that are built on this one: maps of LVM, LUKS or multipath, and arrays. */
  async holders(device: BlockDevice): Promise<readonly string[]> {
    return await readdir(join(this.#sys, "dev/block", device.number, "holders")).catch(unlessExhausted([]));
  }

  async #identity(folder: string): Promise<string> {
    for (const file of ["wwid", "device/wwid", "dm/uuid", "loop/backing_file"]) {
      const found = await text(join(folder, file));
      if (found) return found;
    }
    return "";
  }
}

async function nodeAt(path: string): Promise<{ readonly real: string; readonly number: string }> {
  const real = await realpath(path).catch(gone(path));
  const stats = await stat(real).catch(gone(real));
  if (stats.isBlockDevice()) return { real, number: deviceNumber(stats.rdev) };
  throw new CsiError("failed-precondition", `${real} is not a block device; it is not changed`);
}

/** Converts a device number of stat(2) to the form of mountinfo (makedev(3)). */
export const deviceNumber = (rdev: number): string => {
  const number = BigInt(rdev);
  const major = ((number >> 8n) & 0xfffn) | ((number >> 32n) & ~0xfffn);
  const minor = (number & 0xffn) | ((number >> 12n) & 0xffffff00n);
  return `${major}:${minor}`;
};

const replaced = (path: string, what: string): CsiError =>
  new CsiError("unavailable", `${path} is not the disk that was attached (${what}); retrying`);

const gone =
  (path: string) =>
  (cause: unknown): never => {
    throw new CsiError("unavailable", `the disk ${path} does not exist (${errnoOf(cause) ?? "unknown reason"})`, {
      cause,
    });
  };

const unreadable = (folder: string, cause: unknown): CsiError =>
  new CsiError("unavailable", `${folder} cannot be read to list disks (${errnoOf(cause) ?? "unknown reason"})`, {
    cause,
  });

const text = async (file: string): Promise<string> => (await readFile(file, "utf8").catch(unlessExhausted(""))).trim();

/**
 * A disk that is kept open for reading. While it is open, the kernel does not give its name and number to another disk
 * even if it disappears (drivers/scsi/sd.c, scsi_disk_release; drivers/nvme/host/core.c, nvme_free_ns_head;
 * drivers/md/dm.c, dm_open), so programs that get its path reach this disk or none.
 */
export interface ExclusiveDisk {
  /** Throws "unavailable" if the kernel now shows a different disk from the one that was attached. */
  prove(): Promise<void>;
  release(): Promise<void>;
}

/** Opens a disk. Throws "unavailable" if it is gone or has been replaced by another one. */
export async function openExclusively(
  devices: BlockDevices,
  device: AttachedDevice,
  signal: AbortSignal,
): Promise<ExclusiveDisk> {
  const { path, number } = device;
  // Opening a file that is not a disk can have side effects.
  await devices.prove(device);
  const file = await openDisk(path, signal);
  const prove = async () => {
    const { rdev } = await file.stat();
    if (deviceNumber(rdev) !== number)
      throw new CsiError("unavailable", `${path} is not the disk that was attached; retrying`);
    await devices.prove(device);
  };
  try {
    // From here on no other disk can take the name; the proof before opening does not count.
    await prove();
  } catch (error) {
    await file.close();
    throw error;
  }
  return { prove, release: () => file.close() };
}

/** Throws "unavailable" if the disk cannot be opened in time: without a working path, opening blocks for minutes. */
export async function openDisk(path: string, signal: AbortSignal): Promise<FileHandle> {
  const opening = open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return await bounded(opening, `opening ${path}`, signal);
  } catch (cause) {
    opening.then(
      late => late.close(),
      () => {},
    );
    throw new CsiError("unavailable", `the disk ${path} cannot be opened; retrying`, { cause });
  }
}

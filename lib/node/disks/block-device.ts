import { access, readdir, readFile, realpath, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import type { AttachedDevice } from "../attach/attacher.ts";

/** A disk or a partition of this node. */
export interface BlockDevice {
  /** Its real path, such as /dev/sda. */
  readonly path: string;
  /** As the kernel calls it: "sda". */
  readonly name: string;
  /** "major:minor", as mountinfo shows it. */
  readonly number: string;
  readonly bytes: bigint;
  /** What tells it from all other disks wherever it appears; empty when it has nothing of that kind. */
  readonly identity: string;
}

const sectorBytes = 512n;

/** How sysfs answers about a device that is gone, or is going at this moment. */
const removed: ReadonlySet<string> = new Set(["ENOENT", "ENODEV", "ENXIO"]);

/** The block devices of this node as sysfs shows them; asks no program, and needs no udev. Nothing here reads from a device. */
export class BlockDevices {
  readonly #sys: string;

  /** `sys` is /sys outside tests. */
  constructor(sys: string) {
    this.#sys = sys;
  }

  /** Throws "unavailable" when there is no such device, or none with a size, and "failed-precondition" for anything but a disk. */
  async at(path: string): Promise<BlockDevice> {
    const { real, number } = await nodeAt(path);
    const folder = join(this.#sys, "dev/block", number);
    const name = basename(await realpath(folder).catch(gone(real)));
    const bytes = BigInt(await readFile(join(folder, "size"), "utf8").catch(gone(real))) * sectorBytes;
    if (bytes > 0n) return { path: real, name, number, bytes, identity: await this.#identity(folder) };
    throw new CsiError("unavailable", `the disk ${real} has no size at present; it will be tried again`);
  }

  /** Whether the kernel knows a device of this number. Throws "unavailable" where sysfs does not tell. */
  async has(number: string): Promise<boolean> {
    const devices = join(this.#sys, "dev/block");
    try {
      await access(join(devices, number));
      return true;
    } catch (error) {
      if (!removed.has(errnoOf(error) ?? "")) throw untold(devices, error);
    }
    // Where the folder itself is missing, so is every device in it.
    await access(devices).catch((error: unknown) => {
      throw untold(devices, error);
    });
    return false;
  }

  /** Throws "unavailable" where the device of this path and number is not the volume any more, or never was. */
  async prove({ path, number, proof }: AttachedDevice): Promise<void> {
    const now = (await nodeAt(path)).number;
    if (now !== number) throw replaced(path, `its number is ${now}, not ${number}`);
    for (const [file, expected] of Object.entries(proof)) {
      const found = await text(join(this.#sys, file));
      if (found !== expected)
        throw replaced(path, `${file} is ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`);
    }
  }

  /** The partitions that the kernel found on a disk, in the order of their numbers, as paths beside the disk's own. */
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

  /** Names of the devices that are built on this one: maps of LVM, LUKS or multipath, and arrays. */
  async holders(device: BlockDevice): Promise<readonly string[]> {
    return await readdir(join(this.#sys, "dev/block", device.number, "holders")).catch(() => []);
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
  throw new CsiError("failed-precondition", `${real} is no block device; it is left alone`);
}

/** A device number in stat(2)'s form as mountinfo writes it (makedev(3)). */
export const deviceNumber = (rdev: number): string => {
  const number = BigInt(rdev);
  const major = ((number >> 8n) & 0xfffn) | ((number >> 32n) & ~0xfffn);
  const minor = (number & 0xffn) | ((number >> 12n) & 0xffffff00n);
  return `${major}:${minor}`;
};

const replaced = (path: string, what: string): CsiError =>
  new CsiError("unavailable", `${path} is another disk than the one that was attached (${what}); retrying`);

const gone =
  (path: string) =>
  (cause: unknown): never => {
    throw new CsiError("unavailable", `the disk ${path} is not there (${errnoOf(cause) ?? "unknown reason"})`, {
      cause,
    });
  };

const untold = (folder: string, cause: unknown): CsiError =>
  new CsiError("unavailable", `${folder} does not tell which disks there are (${errnoOf(cause) ?? "unknown reason"})`, {
    cause,
  });

const text = async (file: string): Promise<string> => (await readFile(file, "utf8").catch(() => "")).trim();

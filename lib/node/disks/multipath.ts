import { constants } from "node:fs";
import { open, readFile } from "node:fs/promises";
import type { Call } from "../../core/call.ts";
import { CsiError, errnoOf } from "../../core/errors.ts";
import { type CommandRunner, type Output, run } from "../../io/runner.ts";
import { bounded } from "../mount/files.ts";
import { pollUntil, type Sysfs } from "./sysfs.ts";

/** One disk made of several paths to it (multipathd(8)). */
export interface MultipathMap {
  /** The kernel's name: "dm-0". */
  readonly device: string;
  /** The name in multipath: "mpatha". */
  readonly name: string;
}

/** Time limits for multipathd to make a map if several paths are expected, and if only one is, in milliseconds. */
const mapMs = 15_000;
const loneMs = 5_000;

/** Interval between requests to add a path that multipathd has not taken, in milliseconds. */
const againMs = 2_000;

/** How long flushing a map in use is retried, in milliseconds. */
const flushMs = 20_000;

const socket = "@/org/kernel/linux/storage/multipathd";

/** Maps of dm-multipath. Other devices built on disks, such as LVM and LUKS, are not included. */
export class Multipath {
  readonly #host: CommandRunner;
  readonly #sysfs: Sysfs;
  readonly #sockets: string;

  /** `sockets` is /proc/net/unix of the host's network outside tests. */
  constructor(host: CommandRunner, sysfs: Sysfs, sockets: string) {
    this.#host = host;
    this.#sysfs = sysfs;
    this.#sockets = sockets;
  }

  /** Whether the daemon runs on this node. */
  async runs(): Promise<boolean> {
    return (await readFile(this.#sockets, "utf8").catch(() => "")).includes(socket);
  }

  /** The map that is built on one of these disks, or undefined. */
  async mapOf(disks: readonly string[]): Promise<MultipathMap | undefined> {
    for (const disk of disks) {
      for (const device of await this.#sysfs.names("class/block", disk, "holders")) {
        const uuid = await this.#sysfs.text("class/block", device, "dm/uuid");
        const name = await this.#sysfs.text("class/block", device, "dm/name");
        if (uuid.startsWith("mpath-") && name) return { device, name };
      }
    }
    return undefined;
  }

  /**
   * Waits for the map of these disks. Undefined if the daemon does not run or does not want them. If several paths are
   * `expected`, first adds the disk's WWID to the daemon's list, because by default (find_multipaths strict) it takes
   * no disk that it does not know; other paths may follow later. Otherwise waits only if the daemon claims the disk.
   * Throws "unavailable" for disks that the daemon claims without making a map: it may take them at any time.
   */
  async waitForMap(disks: readonly string[], expected: boolean, call: Call): Promise<MultipathMap | undefined> {
    if (!(await this.runs())) return await this.mapOf(disks);
    const task = `waiting for a map of ${disks.join(", ")}`;
    if (expected) for (const disk of disks) await this.#run(["multipath", "-a", `/dev/${disk}`], task, call);
    else if (!(await this.#claims(disks, call))) return await this.mapOf(disks);
    let next = 0;
    const ask = async () => {
      const maps = await Promise.all(disks.map(disk => this.mapOf([disk])));
      if (maps.every(map => map !== undefined)) return maps[0];
      // The daemon refuses a disk that udev has not finished processing.
      if (performance.now() >= next) {
        for (const disk of disks.filter((_, index) => !maps[index]))
          await this.#run(["multipathd", "add", "path", disk], `adding ${disk} to a map`, call);
        next = performance.now() + againMs;
      }
      return undefined;
    };
    const map = (await pollUntil(expected ? mapMs : loneMs, ask, task, call.signal)) ?? (await this.mapOf(disks));
    if (map) return map;
    if (await this.#claims(disks, call))
      throw new CsiError(
        "unavailable",
        `multipathd claims one of ${disks.join(", ")} but makes no map of it; retrying`,
      );
    if (expected) call.log.warn("multipathd makes no map of a disk; using a single path", { disks });
    return undefined;
  }

  /** Whether the daemon would take one of these disks, by its configuration (multipath(8), -c). */
  async #claims(disks: readonly string[], call: Call): Promise<boolean> {
    for (const disk of disks) {
      const { exitCode } = await this.#run(
        ["multipath", "-c", `/dev/${disk}`],
        `checking ${disk} with multipath`,
        call,
      );
      if (exitCode === 0) return true;
    }
    return false;
  }

  /**
   * The attributes that prove that a map is the disk with this identity (AttachedDevice.proof). `attribute` holds the
   * identity of each path. Throws "failed-precondition" if one of the paths is another disk: writes to the map might
   * end up there.
   */
  async proof(
    { device, name }: MultipathMap,
    attribute: string,
    identity: string,
  ): Promise<Readonly<Record<string, string>>> {
    const paths = await this.#sysfs.names("class/block", device, "slaves");
    const found = await Promise.all(paths.map(path => this.#sysfs.text("class/block", path, attribute)));
    const other = paths.find((_, index) => found[index] !== identity);
    if (other !== undefined)
      throw new CsiError(
        "failed-precondition",
        `the map ${name} of multipathd contains the path ${other}, which is a different disk; remove it (multipathd del path ${other})`,
      );
    const uuid = `class/block/${device}/dm/uuid`;
    return {
      [uuid]: await this.#sysfs.text(uuid),
      ...Object.fromEntries(paths.map(path => [`class/block/${path}/${attribute}`, identity])),
    };
  }

  /** Removes disks that are about to be detached from multipathd's list, to which waitForMap added them. */
  async forget(disks: readonly string[], call: Call): Promise<void> {
    if (!(await this.runs())) return;
    for (const disk of disks.slice(0, 1))
      await this.#run(["multipath", "-w", `/dev/${disk}`], `forgetting ${disk}`, call);
  }

  /** Removes an unused map. Throws "unavailable" while it is in use. */
  async flush(map: MultipathMap, call: Call): Promise<void> {
    const task = `removing the map ${map.name}`;
    let last = "";
    const gone = async () => {
      const { exitCode, stderr, stdout } = await this.#run(["multipath", "-f", map.name], task, call);
      if (exitCode !== 0) last = (stderr.trim() || stdout.trim()).slice(0, 300);
      return (await this.#sysfs.text("class/block", map.device, "dm/name")) === map.name ? undefined : true;
    };
    if (await pollUntil(flushMs, gone, task, call.signal)) return;
    throw new CsiError("unavailable", `${task} failed: ${last || "it still exists"}; retrying`);
  }

  /** Makes a map take over the new size of its paths. Throws "unavailable". */
  async resize(map: MultipathMap, call: Call): Promise<void> {
    const task = `growing the map ${map.name}`;
    const { exitCode, stdout, stderr } = await this.#run(["multipathd", "resize", "map", map.name], task, call);
    const words = (stderr.trim() || stdout.trim()).slice(0, 300);
    if (exitCode !== 0 || /fail/.test(stdout)) throw new CsiError("unavailable", `${task} failed: ${words}`);
  }

  async #run(argv: readonly [string, ...string[]], task: string, call: Call): Promise<Output> {
    return await run(this.#host, { argv }, task, call.signal);
  }
}

/**
 * Whether a block device is in exclusive use: mounted, in any mount namespace, or the base of another device (open(2),
 * O_EXCL on a block device). False for a device that is missing or cannot be opened.
 */
export async function isHeld(path: string, signal: AbortSignal): Promise<boolean> {
  const tryOpen = async (): Promise<boolean> => {
    try {
      const handle = await open(path, constants.O_RDONLY | constants.O_EXCL | constants.O_NONBLOCK);
      await handle.close();
      return false;
    } catch (cause) {
      return errnoOf(cause) === "EBUSY";
    }
  };
  return await bounded(tryOpen(), `opening ${path}`, signal);
}

/**
 * Writes the kernel's buffers of a device back. If the device no longer accepts writes, data that its last user did not
 * sync is lost; keeping it attached would not recover that, so the failure is only logged.
 */
export async function flushDisk(path: string, runner: CommandRunner, call: Call): Promise<void> {
  const output = await run(runner, { argv: ["blockdev", "--flushbufs", path] }, `flushing ${path}`, call.signal);
  if (output.exitCode !== 0) call.log.warn("cannot flush a disk before detaching it", { path });
}

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { type Output, run } from "../../io/runner.ts";
import type { AttachedDevice, AttacherPorts } from "../attach/attacher.ts";
import { unlessExhausted } from "../mount/files.ts";
import { flushDisk, isHeld } from "./in-use.ts";
import { bytesOf, filtered, pollUntil, type Sysfs } from "./sysfs.ts";

/** One disk made of several paths to it (multipathd(8)). */
export interface MultipathMap {
  /** The kernel's name: "dm-0". */
  readonly device: string;
  /** The name in multipath: "mpatha". */
  readonly name: string;
  /** "mpath-" and the WWID of the disk (multipath-tools, libmultipath/devmapper.c, UUID_PREFIX). */
  readonly uuid: string;
}

/** Time limits for multipathd to make a map if several paths are expected, and if only one is, in milliseconds. */
const mapMs = 15_000;
const loneMs = 5_000;

/** Interval between requests to add a path that multipathd has not taken, in milliseconds. */
const againMs = 2_000;

/** How long flushing a map in use is retried, in milliseconds. */
const flushMs = 20_000;

/** Time limit for a disk to show its new size, in milliseconds. */
const grownMs = 60_000;

const socket = "@/org/kernel/linux/storage/multipathd";

/** Disks that this node sees through one or several paths, and their maps of dm-multipath, but not of LVM or LUKS. */
export class Multipath {
  readonly #ports: Pick<AttacherPorts, "runner" | "host" | "proc" | "devices">;
  readonly #sysfs: Sysfs;

  constructor(ports: Pick<AttacherPorts, "runner" | "host" | "proc" | "devices">, sysfs: Sysfs) {
    this.#ports = ports;
    this.#sysfs = sysfs;
  }

  /** Whether the daemon runs on this node. */
  async runs(): Promise<boolean> {
    return (await readFile(join(this.#ports.proc, "net/unix"), "utf8").catch(unlessExhausted(""))).includes(socket);
  }

  /** The map that is built on one of these disks, or undefined. */
  async mapOf(disks: readonly string[]): Promise<MultipathMap | undefined> {
    const holders = await Promise.all(disks.map(disk => this.#sysfs.names("class/block", disk, "holders")));
    return (await this.#mapsAmong(holders.flat()))[0];
  }

  async #mapsAmong(devices: readonly string[]): Promise<readonly MultipathMap[]> {
    const text = (device: string, file: string) => this.#sysfs.text("class/block", device, "dm", file);
    const found = devices.map(async device => ({
      device,
      name: await text(device, "name"),
      uuid: await text(device, "uuid"),
    }));
    return (await Promise.all(found)).filter(({ name, uuid }) => name && uuid.startsWith("mpath-"));
  }

  /** The map with this uuid, unless it has a path: something else has attached that disk then. */
  async #lostMap(uuid: string): Promise<MultipathMap | undefined> {
    const devices = (await this.#sysfs.names("class/block")).filter(name => name.startsWith("dm-"));
    const map = (await this.#mapsAmong(devices)).find(each => each.uuid === uuid);
    return map && (await this.#pathsOf(map)).length === 0 ? map : undefined;
  }

  /** The paths of a map; the link to one whose disk is gone leads nowhere until the map is loaded again (block/holder.c). */
  async #pathsOf({ device }: MultipathMap): Promise<readonly string[]> {
    const dev = (slave: string) => this.#sysfs.text("class/block", device, "slaves", slave, "dev");
    return filtered(await this.#sysfs.names("class/block", device, "slaves"), async slave => (await dev(slave)) !== "");
  }

  /** Whether a disk has a map with another path that works, to which multipathd adds the disk again when it has been away. */
  async hasOther(disk: string): Promise<boolean> {
    const map = (await this.runs()) ? await this.mapOf([disk]) : undefined;
    const others = map ? (await this.#pathsOf(map)).filter(path => path !== disk) : [];
    const states = others.map(path => this.#sysfs.text("class/block", path, "device/state"));
    return (await Promise.all(states)).includes("running");
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
    if (await this.#claims(disks, call)) {
      const text = `multipathd claims one of ${disks.join(", ")} but makes no map of it; retrying`;
      throw new CsiError("unavailable", text);
    }
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
   * These paths to a disk without a map, before them the one that is in use, also if it is one of `others`, which may have lost their
   * connection: a mount(8) or mkfs(8) that ran out of time may go on there, and the kernel takes two paths for two disks. `attribute` is
   * that of `device`.
   */
  async inUseFirst(
    paths: readonly string[],
    others: readonly string[],
    attribute: string,
    call: Call,
  ): Promise<readonly string[]> {
    const identity = (path: string) => this.#sysfs.text("class/block", path, attribute);
    const own = await identity(paths[0] ?? "");
    const all = [...new Set([...paths, ...others])];
    for (const path of all.length > 1 ? all : []) {
      if ((await identity(path)) !== own || !(await isHeld(join(this.#ports.devices, path), call.signal))) continue;
      return [path, ...paths.filter(each => each !== path)];
    }
    return paths;
  }

  /**
   * The device for these paths to one disk: their map if there is one, otherwise the first path. `attribute` of a path
   * holds the identity of its disk; `name` is the identity if that is empty. Throws "failed-precondition" if the map has
   * a path to another disk: writes to the map might end up there.
   */
  async device(
    paths: readonly string[],
    map: MultipathMap | undefined,
    attribute: string,
    name: string,
  ): Promise<AttachedDevice> {
    const [first = ""] = paths;
    const file = (path: string): string => `class/block/${path}/${attribute}`;
    const identity = await this.#sysfs.text(file(first));
    const all = map ? [...paths, ...(await this.#sysfs.names("class/block", map.device, "slaves"))] : paths;
    const found = await Promise.all(all.map(path => this.#sysfs.text(file(path))));
    const other = all.find((_, index) => found[index] !== identity);
    if (other !== undefined)
      throw new CsiError(
        "failed-precondition",
        map
          ? `the map ${map.name} of multipathd contains the path ${other}, which is a different disk; remove it (multipathd del path ${other})`
          : `${first} and ${other} are different disks; none of them is used`,
      );
    const uuid = map && `class/block/${map.device}/dm/uuid`;
    const device = map?.device ?? first;
    return {
      kind: "device",
      path: join(this.#ports.devices, device),
      number: await this.#sysfs.text("class/block", device, "dev"),
      identity: identity || name,
      proof: {
        ...Object.fromEntries(all.map(path => [file(path), identity])),
        ...(uuid && { [uuid]: await this.#sysfs.text(uuid) }),
      },
    };
  }

  /**
   * Waits until all paths to a disk, and their map, have the same new size of at least `least` bytes; returns it.
   * `paths` returns their names. Throws "unavailable" if the size does not appear in time.
   */
  async grow(
    paths: () => Promise<readonly string[]>,
    least: bigint | undefined,
    task: string,
    call: Call,
  ): Promise<bigint> {
    const sized = async (map?: MultipathMap) => {
      const names = await paths();
      const all = map ? [map.device, ...names] : names;
      const [bytes = 0n, ...others] = await Promise.all(all.map(name => bytesOf(name, this.#sysfs)));
      return others.every(size => size === bytes) && bytes >= (least ?? 1n) ? { bytes, names } : undefined;
    };
    const seen = await pollUntil(grownMs, () => sized(), task, call.signal);
    if (!seen) throw new CsiError("unavailable", `${task}: this node does not see the new size yet`);
    const map = await this.mapOf(seen.names);
    if (!map) return seen.bytes;
    await this.#resize(map, call);
    const whole = await pollUntil(grownMs, () => sized(map), task, call.signal);
    if (whole) return whole.bytes;
    throw new CsiError("unavailable", `${task}: the multipath map ${map.name} was not resized with its paths`);
  }

  /**
   * Writes a disk back and removes its map: that of its paths, or the one with this uuid that has no path left. Throws "unavailable" while the
   * disk is in use on this node.
   */
  async release(paths: readonly string[], uuid: string | undefined, call: Call): Promise<void> {
    const own = await this.mapOf(paths);
    const map = own ?? (uuid === undefined ? undefined : await this.#lostMap(uuid));
    const partitions = map ? await this.#partitionsOf(map) : [];
    const disks = map ? [map.device] : paths;
    for (const name of partitions.length > 0 ? partitions : disks) await this.refuseHeld(name, call);
    // Writing to a map without paths would wait for one (multipath.conf(5), no_path_retry "queue").
    for (const name of map === own ? [...partitions, ...disks] : []) {
      await flushDisk(join(this.#ports.devices, name), this.#ports.runner, call);
    }
    if (map) await this.#flush(map, call);
  }

  /**
   * The maps that udev makes of the partitions of a map, as of the disk of a virtual machine (multipath-tools, kpartx.rules): they hold it, and
   * `multipath -f` removes them with it. None if anything else is built on it, which holds it for a use of its own.
   */
  async #partitionsOf({ device }: MultipathMap): Promise<readonly string[]> {
    const holders = await this.#sysfs.names("class/block", device, "holders");
    const parts = await filtered(holders, async name =>
      /^part[0-9]+-mpath-/.test(await this.#sysfs.text("class/block", name, "dm/uuid")),
    );
    return parts.length === holders.length ? parts : [];
  }

  /** Throws "unavailable" if a device is in use. */
  async refuseHeld(name: string, call: Call): Promise<void> {
    const path = join(this.#ports.devices, name);
    if (await isHeld(path, call.signal))
      throw new CsiError("unavailable", `${path} is still in use on this node; it stays attached until it is released`);
  }

  /** Removes disks that are about to be detached from multipathd's list, to which waitForMap added them. */
  async forget(disks: readonly string[], call: Call): Promise<void> {
    if (!(await this.runs())) return;
    for (const disk of disks.slice(0, 1))
      await this.#run(["multipath", "-w", `/dev/${disk}`], `forgetting ${disk}`, call);
  }

  /** Removes an unused map. Throws "unavailable" while it is in use. */
  async #flush(map: MultipathMap, call: Call): Promise<void> {
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
  async #resize(map: MultipathMap, call: Call): Promise<void> {
    const task = `growing the map ${map.name}`;
    const { exitCode, stdout, stderr } = await this.#run(["multipathd", "resize", "map", map.name], task, call);
    const words = (stderr.trim() || stdout.trim()).slice(0, 300);
    if (exitCode !== 0 || /fail/.test(stdout)) throw new CsiError("unavailable", `${task} failed: ${words}`);
  }

  async #run(argv: readonly [string, ...string[]], task: string, call: Call): Promise<Output> {
    return await run(this.#ports.host, { argv }, task, call.signal);
  }
}

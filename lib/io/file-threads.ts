import { readFileSync } from "node:fs";
import { parseMountinfo } from "../core/mountinfo.ts";
import { callsAtOnce, type Semaphore, semaphores } from "../core/semaphore.ts";

/** How long mountinfo is cached, in milliseconds: a disk mounted later is noticed soon enough. */
const mountinfoCacheMs = 10_000;

/** The number of folders beyond which they are forgotten. */
const manyFolders = 256;

/**
 * The device at each mount point of a mountinfo text; if several share a mount point, the last, which covers the
 * others.
 */
export const devicesOf = (mountinfo: string): ReadonlyMap<string, string> =>
  new Map(parseMountinfo(mountinfo).map(({ at, device }) => [at, device]));

/** The device of an absolute path, by its text alone: links are not followed, because even that may hang. */
export function deviceOf(path: string, devices: ReadonlyMap<string, string>): string {
  for (let at = path; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf("/")))) {
    const device = devices.get(at);
    if (device !== undefined) return device;
  }
  return devices.get("/") ?? "";
}

function ownDevices(): ReadonlyMap<string, string> {
  try {
    // The kernel produces this text from memory, so reading it returns at once even while a disk hangs.
    return devicesOf(readFileSync("/proc/self/mountinfo", "utf8"));
  } catch {
    return new Map();
  }
}

/**
 * Shares out the threads that wait for file systems (64 for the process), so that a file system that does not answer
 * cannot take all of them: a few at a time per device of this machine and per server. `devices` returns what is mounted
 * where, `now` milliseconds.
 */
export class FileThreads {
  readonly #slotsOf = semaphores(callsAtOnce);
  readonly #read: () => ReadonlyMap<string, string>;
  readonly #now: () => number;
  #devices: ReadonlyMap<string, string> = new Map();
  /** The slots of what is in a folder and not a mount point; most calls are in few folders. */
  readonly #inFolder = new Map<string, Semaphore>();
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(devices: () => ReadonlyMap<string, string> = ownDevices, now = () => performance.now()) {
    this.#read = devices;
    this.#now = now;
  }

  /** The slots of the device of an absolute path. */
  on(path: string): Semaphore {
    if (this.#now() - this.#readAt > mountinfoCacheMs) {
      this.#devices = this.#read();
      this.#readAt = this.#now();
      this.#inFolder.clear();
    }
    const mounted = this.#devices.get(path);
    if (mounted !== undefined) return this.onDevice(mounted);
    const folder = path.slice(0, path.lastIndexOf("/") + 1);
    const known = this.#inFolder.get(folder);
    if (known) return known;
    const slots = this.onDevice(deviceOf(path, this.#devices));
    if (this.#inFolder.size >= manyFolders) this.#inFolder.clear();
    this.#inFolder.set(folder, slots);
    return slots;
  }

  /** The slots of a device, `major:minor`. */
  onDevice(device: string): Semaphore {
    return this.#slotsOf(`device ${device}`);
  }

  /** The slots of a file server, for all of its mounts. */
  onServer(name: string): Semaphore {
    return this.#slotsOf(`server ${name}`);
  }
}

/** The file threads of this process, shared by its node half and its drivers. */
export const fileThreads = new FileThreads();

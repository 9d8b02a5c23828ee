import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { parseMountinfo } from "../core/mountinfo.ts";
import { callsAtOnce, type Slots, slotsByName } from "../core/slots.ts";

/** How long it is believed what is mounted where, in milliseconds: a disk that is mounted later counts soon enough. */
export const believedMs = 10_000;

/** Which device is mounted where, by mount point, from a mountinfo text; of several at one point the last, which covers the others. */
export const devicesOf = (mountinfo: string): ReadonlyMap<string, string> =>
  new Map(parseMountinfo(mountinfo).map(({ at, device }) => [at, device]));

/** The device that an absolute path is on, by its spelling alone: links are not followed, because that may already hang. */
export function deviceOf(path: string, devices: ReadonlyMap<string, string>): string {
  for (let at = path; at !== "/" && at !== "."; at = dirname(at)) {
    const device = devices.get(at);
    if (device !== undefined) return device;
  }
  return devices.get("/") ?? "";
}

function ownDevices(): ReadonlyMap<string, string> {
  try {
    // The kernel makes this text from memory, so it is there at once even while a disk hangs.
    return devicesOf(readFileSync("/proc/self/mountinfo", "utf8"));
  } catch {
    return new Map();
  }
}

/**
 * The threads that wait for file systems (12 for the process), shared out so that what does not answer cannot take all of them:
 * a few at a time for each device of this machine and for each server. `devices` tells what is mounted where, `now` milliseconds.
 */
export class FileThreads {
  readonly #slotsOf = slotsByName(callsAtOnce);
  readonly #read: () => ReadonlyMap<string, string>;
  readonly #now: () => number;
  #devices: ReadonlyMap<string, string> = new Map();
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(devices: () => ReadonlyMap<string, string> = ownDevices, now = () => performance.now()) {
    this.#read = devices;
    this.#now = now;
  }

  /** Those of the device that an absolute path is on. */
  on(path: string): Slots {
    if (this.#now() - this.#readAt > believedMs) {
      this.#devices = this.#read();
      this.#readAt = this.#now();
    }
    return this.onDevice(deviceOf(path, this.#devices));
  }

  /** Those of a device, `major:minor`. */
  onDevice(device: string): Slots {
    return this.#slotsOf(`device ${device}`);
  }

  /** Those of a server that shares files, whatever of it is mounted where. */
  onServer(name: string): Slots {
    return this.#slotsOf(`server ${name}`);
  }
}

/** The one owner of the threads of this process: its node half and its drivers ask here. */
export const fileThreads = new FileThreads();

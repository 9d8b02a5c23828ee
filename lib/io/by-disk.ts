import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { unescaped } from "../core/mountinfo.ts";
import { type Slots, slotsByName } from "../core/slots.ts";

/** How long it is believed what is mounted where, in milliseconds: a disk that is mounted later counts soon enough. */
export const believedMs = 10_000;

/** Which device is mounted where, by mount point, from a mountinfo text (proc(5)). */
export const devicesOf = (mountinfo: string): ReadonlyMap<string, string> =>
  new Map(
    mountinfo.split("\n").map(line => {
      const fields = line.split(" ");
      return [unescaped(fields[4] ?? ""), fields[2] ?? ""];
    }),
  );

/** The device that an absolute path is on, by its spelling alone: links are not followed, because that may already hang. */
export function deviceOf(path: string, devices: ReadonlyMap<string, string>): string {
  for (let at = path; at !== "/" && at !== "."; at = dirname(at)) {
    const device = devices.get(at);
    if (device !== undefined) return device;
  }
  return devices.get("/") ?? "";
}

function mountinfo(): string {
  try {
    // The kernel makes this text from memory, so it is there at once even while a disk hangs.
    return readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return "";
  }
}

/** Slots for each device of this machine, as a function of a path. `text` gives the mount table and `now` milliseconds. */
export function slotsByDisk(count: number, text: () => string = mountinfo, now = () => performance.now()) {
  const slotsOf = slotsByName(count);
  let devices: ReadonlyMap<string, string> = new Map();
  let readAt = Number.NEGATIVE_INFINITY;
  return (path: string): Slots => {
    if (now() - readAt > believedMs) {
      devices = devicesOf(text());
      readAt = now();
    }
    return slotsOf(deviceOf(path, devices));
  };
}

import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { root } from "../spawned.ts";
import { withLock } from "./lock.ts";
import { guestPorts, hostPort } from "./machine.ts";
import { cache, guestFolder } from "./place.ts";

/** The numbers of guests on one host; their ports and addresses are derived from them. */
export const guestNumbers = [1, 2, 3, 4, 5] as const;

/** A running guest's data. */
export interface Running {
  readonly number: number;
  /** The process id of its QEMU. */
  readonly pid: number;
  /** The checkout that started it. */
  readonly owner: string;
  /** The folder of its image. */
  readonly image: string;
}

const fileOf = (number: number, name: string): Promise<string> =>
  readFile(join(guestFolder(number), name), "utf8").catch(() => "");

/** The running guest of a number. Process ids are reused, so the command line is compared too. */
export async function runningGuest(number: number): Promise<Running | undefined> {
  const pid = Number(await fileOf(number, "pid"));
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  if (!commandLine.split("\0").includes(`csimux-lab-${number}`)) return undefined;
  return { number, pid, owner: await fileOf(number, "owner"), image: await fileOf(number, "image") };
}

/** All running guests of this host. */
export async function runningGuests(): Promise<readonly Running[]> {
  const found = await Promise.all(guestNumbers.map(runningGuest));
  return found.filter(guest => guest !== undefined);
}

/** Whether the ports of a guest's number are free. */
async function portsAreFree(number: number): Promise<boolean> {
  for (const port of Object.values(guestPorts)) {
    const server = createServer();
    const free = await new Promise<boolean>(resolve => {
      server.once("error", () => resolve(false));
      server.listen(hostPort(number, port), "127.0.0.1", () => resolve(true));
    });
    await new Promise(resolve => server.close(resolve));
    if (!free) return false;
  }
  return true;
}

async function freeNumber(wanted: number | undefined): Promise<number> {
  for (const number of guestNumbers) {
    if (wanted !== undefined && wanted !== number) continue;
    const guest = await runningGuest(number);
    if (guest === undefined && (await portsAreFree(number))) return number;
    if (wanted === undefined) continue;
    throw new Error(
      `guest ${number} cannot start: ${guest ? `it runs, started from ${guest.owner}` : "its ports are in use"}`,
    );
  }
  throw new Error(`no guest is free: all of ${guestNumbers.join(", ")} run, or their ports are in use`);
}

/**
 * Calls `start`, which returns the process id, with a free number and a new folder. Holds a lock, so that no other process takes the number
 * in between. Throws if the wanted number, or every number, is taken.
 */
export const claimGuest = (
  wanted: number | undefined,
  image: string,
  start: (number: number, folder: string) => Promise<number>,
): Promise<number> =>
  withLock(join(cache, "guests.lock"), async () => {
    const number = await freeNumber(wanted);
    const folder = guestFolder(number);
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "owner"), root);
    await writeFile(join(folder, "image"), image);
    await writeFile(join(folder, "pid"), String(await start(number, folder)));
    return number;
  });

/** The guest for a command: that of the number, or the only one that this checkout has started. */
export async function chosenGuest(number: number | undefined): Promise<Running> {
  if (number !== undefined) {
    const guest = await runningGuest(number);
    if (guest === undefined) throw new Error(`guest ${number} is not running`);
    return guest;
  }
  const [own, another] = (await runningGuests()).filter(guest => guest.owner === root);
  if (own === undefined)
    throw new Error("no guest of this checkout is running; start one with: bun scripts/lab/main.ts up");
  if (another !== undefined)
    throw new Error("several guests of this checkout are running; choose one with --guest <number>");
  return own;
}

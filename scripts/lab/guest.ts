import type { ChildProcess } from "node:child_process";
import { readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { messageOf } from "../../lib/core/errors.ts";
import { say } from "../say.ts";
import { spawned } from "../spawned.ts";
import { acceleratorOf, buildImage } from "./build.ts";
import { disksOf, frozenState } from "./freeze.ts";
import { claimGuest, type Running } from "./guests.ts";
import { endProcess, startMachine } from "./machine.ts";
import { markUsed } from "./old-images.ts";
import { cache, guestFolder, type Image, imageIn } from "./place.ts";
import { type Ssh, sshTo, waitForSsh } from "./ssh.ts";

/** A running guest. */
export interface Guest {
  readonly number: number;
  readonly ssh: Ssh;
}

/** Options of `up`. */
export interface UpOptions {
  /** The guest's number; the first free one if absent. */
  readonly number?: number | undefined;
  /** Whether the guest ends with this process, however that ends. */
  readonly tethered: boolean;
}

/** Creates disks for a guest that contain only the differences from the image's. */
async function makeDisks(image: Image, folder: string): Promise<readonly [string, string]> {
  const [root, pool] = disksOf(image);
  const made = async (base: string): Promise<string> => {
    const disk = join(folder, basename(base));
    const result = await spawned(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", base, disk]);
    if (result.code !== 0) throw new Error(`qemu-img: ${result.stderr}`);
    return disk;
  };
  return [await made(root), await made(pool)];
}

async function settle(ssh: Ssh, number: number): Promise<void> {
  const script = await readFile(join(import.meta.dirname, "resumed.sh"), "utf8");
  const now = (Date.now() / 1000).toFixed(3);
  const result = await ssh.run(["sh", "-ec", script, "resumed", String(number), now], { timeoutMs: 60_000 });
  if (result.code !== 0) throw new Error(`guest ${number} could not be set up: ${result.stderr}`);
}

async function startFrozen(image: Image, { number, tethered }: UpOptions) {
  let machine: ChildProcess | undefined;
  const accelerator = await acceleratorOf(image);
  const taken = await claimGuest(number, image.folder, async (free, folder) => {
    const disks = await makeDisks(image, folder);
    const frozen = frozenState(image);
    machine = startMachine({ number: free, accelerator, image: image.folder, folder, disks, frozen, tethered });
    if (machine.pid === undefined) throw new Error("QEMU could not be started");
    return machine.pid;
  });
  if (machine === undefined) throw new Error("no machine was started");
  return { number: taken, machine };
}

/** Starts a guest from the frozen machine, building the image first if necessary. Resolves when ssh answers. */
export async function up(options: UpOptions): Promise<Guest> {
  const image = await buildImage();
  await markUsed(image);
  const from = performance.now();
  const { number, machine } = await startFrozen(image, options);
  const ssh = sshTo(image, number);
  try {
    await waitForSsh(ssh, machine, 180_000);
    await settle(ssh, number);
  } catch (error) {
    const log = await readFile(join(guestFolder(number), "qemu.log"), "utf8").catch(() => "");
    await remove(number, ssh, machine.pid);
    throw new Error(`guest ${number} did not come up: ${messageOf(error)}\n${log}`);
  }
  say(`guest ${number} is up after ${((performance.now() - from) / 1000).toFixed(1)} s`);
  return { number, ssh };
}

async function remove(number: number, ssh: Ssh, pid: number | undefined): Promise<void> {
  await ssh.close();
  if (pid !== undefined) await endProcess(pid);
  await rm(guestFolder(number), { recursive: true, force: true });
  await rm(join(cache, `ssh-${number}`), { force: true });
}

/** ssh to a running guest, whatever started it. */
export const sshToRunning = (guest: Running): Ssh => sshTo(imageIn(guest.image), guest.number);

/** Ends a guest and removes its disks; the image remains. */
export async function down(guest: Running): Promise<void> {
  await remove(guest.number, sshToRunning(guest), guest.pid);
  say(`guest ${guest.number} is down, its disks are gone`);
}

import { CsiError } from "../../core/errors.ts";
import type { CommandRunner, Output } from "../../io/runner.ts";
import type { BlockDevice } from "./block-device.ts";
import { dataOn } from "./extents.ts";
import { complaint, failed, run } from "./tool.ts";

/** What is on a disk. Only "blank" allows a file system to be made without further proof. */
export type Contents =
  /** No known signature, no partition table, and nothing but zeros in the first and the last MiB and in all extents that are looked at. */
  | { readonly kind: "blank" }
  /** No known signature, but data, the first of which was found in the block at this byte. */
  | { readonly kind: "unsigned"; readonly at: bigint }
  /** What blkid(8) calls a file system, be it one that csimux knows or not. */
  | { readonly kind: "filesystem"; readonly type: string; readonly uuid: string }
  /** A partition table, a part of an array, an encrypted disk, or several at once. */
  | { readonly kind: "foreign"; readonly what: string };

/** How long a tool may look at a disk, in milliseconds. */
const lookMs = 30_000;

/** How much is looked at on each end: every known format keeps its head or its label there. */
const edgeBytes = 1n << 20n;

/**
 * Reads what is on a disk from the disk itself: neither udev's database nor blkid's cache is asked, and nothing is written.
 * Throws "unavailable" when the disk cannot be read and "failed-precondition" when a program is missing.
 */
export async function contentsOf(device: BlockDevice, runner: CommandRunner, signal: AbortSignal): Promise<Contents> {
  const { path, bytes } = device;
  const signed = await signatureOf(path, runner, signal);
  if (signed) return signed;
  // What another node wrote meanwhile may hide behind this node's memory of the disk.
  await flush(path, runner, signal);
  const edge = bytes < edgeBytes ? bytes : edgeBytes;
  for (const from of [0n, bytes - edge]) {
    if (!(await isZero(path, from, edge, runner, signal))) return { kind: "unsigned", at: from };
  }
  const at = await dataOn(device, signal);
  if (at !== undefined) return { kind: "unsigned", at };
  return (await signatureOf(path, runner, signal)) ?? { kind: "blank" };
}

/** Forgets this node's memory of a disk, after what is still to be written. Throws "unavailable". */
export async function flush(path: string, runner: CommandRunner, signal: AbortSignal): Promise<void> {
  const task = `flushing ${path}`;
  const output = await run(runner, { argv: ["blockdev", "--flushbufs", path], timeoutMs: lookMs }, task, signal);
  if (output.exitCode !== 0) throw failed(output, task);
}

/** Bytes of a disk as they are on it. Throws "unavailable" when fewer can be read. */
export async function bytesAt(
  path: string,
  from: bigint,
  count: number,
  runner: CommandRunner,
  signal: AbortSignal,
): Promise<Buffer> {
  const task = `reading ${path}`;
  const argv = ["od", "-An", "-v", "-tx1", "-j", String(from), "-N", String(count), path] as const;
  const output = await run(runner, { argv, timeoutMs: lookMs }, task, signal);
  const bytes = Buffer.from(output.stdout.replaceAll(/\s/g, ""), "hex");
  if (output.exitCode === 0 && bytes.length === count) return bytes;
  throw failed(output, task);
}

/** cmp(1) answers 0 for equal, 1 for different, and anything else for trouble. */
async function isZero(
  path: string,
  from: bigint,
  count: bigint,
  runner: CommandRunner,
  signal: AbortSignal,
): Promise<boolean> {
  const task = `reading ${path}`;
  const argv = ["cmp", "-s", "-n", String(count), "-i", `${from}:0`, path, "/dev/zero"] as const;
  const output = await run(runner, { argv, timeoutMs: lookMs }, task, signal);
  if (output.exitCode === 0) return true;
  if (output.exitCode === 1) return false;
  throw failed(output, task);
}

/** The exit codes of the low-level probe (blkid(8)): 0 found, 2 nothing found (or no such device), 8 more than one. */
async function signatureOf(path: string, runner: CommandRunner, signal: AbortSignal): Promise<Contents | undefined> {
  const task = `looking for a file system on ${path}`;
  const command = { argv: ["blkid", "-p", "-o", "export", path], timeoutMs: lookMs } as const;
  const output = await run(runner, command, task, signal);
  if (output.exitCode === 0) return named(output.stdout);
  if (output.exitCode === 8) return { kind: "foreign", what: "more than one signature" };
  if (output.exitCode === 2 && isSilent(output)) return undefined;
  throw new CsiError(
    "unavailable",
    `${task}: blkid ended with exit code ${output.exitCode}: ${complaint(output) || "no reason given"}`,
  );
}

const isSilent = ({ stdout, stderr }: Output): boolean => stdout.trim() === "" && stderr.trim() === "";

/** What describes a partition and its entry in the table, not its contents. */
const aboutItself = /^(?:DEVNAME|PART_ENTRY_[A-Z]+)=/;

/**
 * A line `KEY=value` for each thing found; undefined when they tell nothing about contents. The boot sectors of FAT and NTFS can
 * pass for a partition table as well.
 */
function named(listing: string): Contents | undefined {
  const lines = listing.split("\n").filter(line => line !== "");
  if (lines.length > 0 && lines.every(line => aboutItself.test(line))) return undefined;
  const found = new Map(lines.map(line => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
  const type = found.get("TYPE");
  if (type && found.get("USAGE") === "filesystem") return { kind: "filesystem", type, uuid: found.get("UUID") ?? "" };
  if (type) return { kind: "foreign", what: `a signature of ${type}` };
  const table = found.get("PTTYPE");
  return { kind: "foreign", what: table ? `a partition table (${table})` : "something that blkid does not name" };
}

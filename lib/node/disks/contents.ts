import { CsiError } from "../../core/errors.ts";
import type { CommandRunner, Output } from "../../io/runner.ts";
import type { BlockDevice } from "./block-device.ts";
import { dataOn } from "./extents.ts";
import { complaint, failed, run } from "./tool.ts";

/** The contents of a disk. Only "blank" allows formatting without further proof. */
export type Contents =
  /**
   * No known signature, no partition table, and only zeros in the first and last MiB and in all extents that are
   * checked.
   */
  | { readonly kind: "blank" }
  /** No known signature, but data; the first data found is in the block at this byte. */
  | { readonly kind: "unsigned"; readonly at: bigint }
  /** A file system according to blkid(8), whether or not csimux supports it. */
  | { readonly kind: "filesystem"; readonly type: string; readonly uuid: string }
  /** A partition table, a member of an array, an encrypted disk, or several signatures. */
  | { readonly kind: "foreign"; readonly what: string };

/** Time limit for a tool that inspects a disk, in milliseconds. */
const inspectMs = 30_000;

/** How many bytes are checked at each end: every known format keeps its header or label there. */
const edgeBytes = 1n << 20n;

/**
 * Determines the contents of a disk from the disk itself, without udev's database and blkid's cache. Writes nothing.
 * Throws "unavailable" when the disk cannot be read and "failed-precondition" when a program is missing.
 */
export async function contentsOf(device: BlockDevice, runner: CommandRunner, signal: AbortSignal): Promise<Contents> {
  const { path, bytes } = device;
  const signed = await signatureOf(path, runner, signal);
  if (signed) return signed;
  // This node's buffer cache may hide what another node has written meanwhile.
  await flush(path, runner, signal);
  const edge = bytes < edgeBytes ? bytes : edgeBytes;
  for (const from of [0n, bytes - edge]) {
    if (!(await isZero(path, from, edge, runner, signal))) return { kind: "unsigned", at: from };
  }
  const at = await dataOn(device, signal);
  if (at !== undefined) return { kind: "unsigned", at };
  return (await signatureOf(path, runner, signal)) ?? { kind: "blank" };
}

/** Writes this node's buffers of a disk back and drops them. Throws "unavailable". */
export async function flush(path: string, runner: CommandRunner, signal: AbortSignal): Promise<void> {
  const task = `flushing ${path}`;
  const output = await run(runner, { argv: ["blockdev", "--flushbufs", path], timeoutMs: inspectMs }, task, signal);
  if (output.exitCode !== 0) throw failed(output, task);
}

/** Reads bytes of a disk. Throws "unavailable" when fewer can be read. */
export async function bytesAt(
  path: string,
  from: bigint,
  count: number,
  runner: CommandRunner,
  signal: AbortSignal,
): Promise<Buffer> {
  const task = `reading ${path}`;
  const argv = ["od", "-An", "-v", "-tx1", "-j", String(from), "-N", String(count), path] as const;
  const output = await run(runner, { argv, timeoutMs: inspectMs }, task, signal);
  const bytes = Buffer.from(output.stdout.replaceAll(/\s/g, ""), "hex");
  if (output.exitCode === 0 && bytes.length === count) return bytes;
  throw failed(output, task);
}

/** Whether a range is all zeros. cmp(1) exits with 0 for equal, 1 for different, and anything else for an error. */
async function isZero(
  path: string,
  from: bigint,
  count: bigint,
  runner: CommandRunner,
  signal: AbortSignal,
): Promise<boolean> {
  const task = `reading ${path}`;
  const argv = ["cmp", "-s", "-n", String(count), "-i", `${from}:0`, path, "/dev/zero"] as const;
  const output = await run(runner, { argv, timeoutMs: inspectMs }, task, signal);
  if (output.exitCode === 0) return true;
  if (output.exitCode === 1) return false;
  throw failed(output, task);
}

/**
 * Runs blkid's low-level probe. Its exit codes (blkid(8)): 0 found, 2 nothing found (or no such device), 8 more than
 * one.
 */
async function signatureOf(path: string, runner: CommandRunner, signal: AbortSignal): Promise<Contents | undefined> {
  const task = `looking for a file system on ${path}`;
  const command = { argv: ["blkid", "-p", "-o", "export", path], timeoutMs: inspectMs } as const;
  const output = await run(runner, command, task, signal);
  if (output.exitCode === 0) return named(output.stdout);
  if (output.exitCode === 8) return { kind: "foreign", what: "more than one signature" };
  if (output.exitCode === 2 && isSilent(output)) return undefined;
  throw new CsiError(
    "unavailable",
    `${task}: blkid failed with exit code ${output.exitCode}: ${complaint(output) || "no reason given"}`,
  );
}

const isSilent = ({ stdout, stderr }: Output): boolean => stdout.trim() === "" && stderr.trim() === "";

/** Lines about a partition and its entry in the table instead of its contents. */
const aboutItself = /^(?:DEVNAME|PART_ENTRY_[A-Z]+)=/;

/**
 * Parses the lines `KEY=value` of blkid; undefined if none is about contents. The boot sectors of FAT and NTFS can also
 * look like a partition table.
 */
function named(listing: string): Contents | undefined {
  const lines = listing.split("\n").filter(line => line !== "");
  if (lines.length > 0 && lines.every(line => aboutItself.test(line))) return undefined;
  const found = new Map(lines.map(line => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
  const type = found.get("TYPE");
  if (type && found.get("USAGE") === "filesystem") return { kind: "filesystem", type, uuid: found.get("UUID") ?? "" };
  if (type) return { kind: "foreign", what: `a signature of ${type}` };
  const table = found.get("PTTYPE");
  return { kind: "foreign", what: table ? `a partition table (${table})` : "a signature that blkid does not name" };
}

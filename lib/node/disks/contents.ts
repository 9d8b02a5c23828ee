import type { FileHandle } from "node:fs/promises";
import { CsiError } from "../../core/errors.ts";
import { callsAtOnce } from "../../core/semaphore.ts";
import { fileThreads } from "../../io/file-threads.ts";
import { type CommandRunner, complaint, failed, run, runToSuccess } from "../../io/runner.ts";
import { bounded } from "../mount/files.ts";
import { type BlockDevice, openDisk } from "./block-device.ts";

/** The contents of a disk. Only "blank" allows formatting without further proof. */
export type Contents =
  /** No known signature or partition table, and only zeros in the first and last MiB and all checked extents. */
  | { readonly kind: "blank" }
  /** No known signature, but data; the first data found is in the block at this byte. */
  | { readonly kind: "unsigned"; readonly at: bigint }
  /** A file system according to blkid(8), whether or not csimux supports it. */
  | { readonly kind: "filesystem"; readonly type: string; readonly uuid: string }
  /** A partition table, a member of an array, an encrypted disk, or several signatures. */
  | { readonly kind: "foreign"; readonly what: string };

/** Time limit for a tool that inspects a disk, in milliseconds. */
const timeoutMs = 30_000;

/** How many bytes are checked at each end: every known format keeps its header or label there. */
const edgeBytes = 1n << 20n;

/**
 * Reads one disk with programs, which can be killed. Changes nothing. All methods throw "unavailable" when the disk
 * cannot be read, "failed-precondition" when a program is missing.
 */
export class DiskReader {
  readonly #device: BlockDevice;
  readonly #runner: CommandRunner;
  readonly #signal: AbortSignal;

  constructor(device: BlockDevice, runner: CommandRunner, signal: AbortSignal) {
    this.#device = device;
    this.#runner = runner;
    this.#signal = signal;
  }

  /**
   * The contents according to the disk itself, without udev's database and blkid's cache. A file system of this type is found whatever
   * else blkid sees, because the files in it can look like any signature.
   */
  async contents(type: string): Promise<Contents> {
    const found = await this.#anything();
    if (found.kind === "blank" || found.kind === "unsigned") return found;
    if (found.kind === "filesystem" && found.type === type) return found;
    return (await this.holds(type)) ?? found;
  }

  /** The file system of this type, ignoring all other signatures; undefined if there is none. */
  async holds(type: string): Promise<Contents | undefined> {
    const found = await this.#signature(["-n", type]);
    return found?.kind === "filesystem" && found.type === type ? found : undefined;
  }

  async #anything(): Promise<Contents> {
    const { bytes } = this.#device;
    const signed = await this.#signature();
    if (signed) return signed;
    // This node's buffer cache may hide what another node has written meanwhile.
    await this.flush();
    const edge = bytes < edgeBytes ? bytes : edgeBytes;
    for (const at of [0n, bytes - edge]) if (!(await this.#isZero(at, edge))) return { kind: "unsigned", at };
    const at = await dataOn(this.#device, this.#signal);
    if (at !== undefined) return { kind: "unsigned", at };
    return (await this.#signature()) ?? { kind: "blank" };
  }

  /** Writes this node's buffers of the disk back and drops them. */
  async flush(): Promise<void> {
    const { path } = this.#device;
    const argv = ["blockdev", "--flushbufs", path] as const;
    await runToSuccess(this.#runner, { argv, timeoutMs }, `flushing ${path}`, this.#signal);
  }

  /** Exactly `count` bytes from byte `from`. */
  async bytes(from: bigint, count: number): Promise<Buffer> {
    const { path } = this.#device;
    const argv = ["od", "-An", "-v", "-tx1", "-j", String(from), "-N", String(count), path] as const;
    const output = await run(this.#runner, { argv, timeoutMs }, `reading ${path}`, this.#signal);
    const bytes = Buffer.from(output.stdout.replaceAll(/\s/g, ""), "hex");
    if (output.exitCode === 0 && bytes.length === count) return bytes;
    throw failed(output, `reading ${path}`);
  }

  /** Whether a range is all zeros. cmp(1) exits with 0 for equal, 1 for different, and anything else for an error. */
  async #isZero(from: bigint, count: bigint): Promise<boolean> {
    const { path } = this.#device;
    const argv = ["cmp", "-s", "-n", String(count), "-i", `${from}:0`, path, "/dev/zero"] as const;
    const output = await run(this.#runner, { argv, timeoutMs }, `reading ${path}`, this.#signal);
    if (output.exitCode === 0 || output.exitCode === 1) return output.exitCode === 0;
    throw failed(output, `reading ${path}`);
  }

  /** Runs blkid's low-level probe. Exit codes (blkid(8)): 0 found, 2 nothing (or no such device), 8 more than one. */
  async #signature(options: readonly string[] = []): Promise<Contents | undefined> {
    const task = `looking for a file system on ${this.#device.path}`;
    const argv = ["blkid", "-p", ...options, "-o", "export", this.#device.path] as const;
    const output = await run(this.#runner, { argv, timeoutMs }, task, this.#signal);
    if (output.exitCode === 0) return named(output.stdout);
    if (output.exitCode === 8) return { kind: "foreign", what: "more than one signature" };
    const reason = complaint(output);
    if (output.exitCode === 2 && reason === "") return undefined;
    const text = `${task}: blkid failed with exit code ${output.exitCode}: ${reason || "no reason given"}`;
    throw new CsiError("unavailable", text);
  }
}

/** Lines about a partition and its entry in the table instead of its contents. */
const aboutItself = /^(?:DEVNAME|PART_ENTRY_[A-Z]+)=/;

/** Parses blkid's `KEY=value` lines. The boot sectors of FAT and NTFS can also look like a partition table. */
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

const mebibyte = 1n << 20n;
const gibibyte = 1n << 30n;
const blockBytes = 4096n;

/** How many bytes are read at each position: about what one round trip to the storage costs. */
const extentBytes = 16_384n;

const nothing = Buffer.alloc(Number(extentBytes));

/** Positions sampled over the whole disk; size of its beginning and distance of positions there, in bytes. */
const positions = 4096n;
const beginning = 4n * gibibyte;
const atBeginning = 4n * mebibyte;

/** The multiples of `step` from zero up to `end`. */
function* every(step: bigint, end: bigint): Generator<bigint> {
  for (let at = 0n; at < end; at += step) yield at;
}

const aligned = (at: bigint): bigint => (at / blockBytes) * blockBytes;

/** The block groups with a copy of the superblock: 1 and the powers of 3, 5 and 7 (ext4(5), sparse_super). */
function copiedGroups(last: bigint): readonly bigint[] {
  const powers = [3n, 5n, 7n].flatMap(base => {
    const found: bigint[] = [];
    for (let group = base; group <= last; group *= base) found.push(group);
    return found;
  });
  return [1n, ...powers, last].filter(group => group > 0n && group <= last);
}

/** A group has as many blocks as a block has bits (ext4(5)); sparse_super2 uses the last group. */
function extCopies(bytes: bigint): readonly bigint[] {
  return [1024n, 2048n, 4096n, 8192n, 16_384n, 32_768n, 65_536n].flatMap(block => {
    const group = 8n * block * block;
    return copiedGroups((bytes - 1n) / group).map(number => number * group);
  });
}

/** The headers of allocation groups: four on a small disk, one for each TiB on a large one (mkfs.xfs(8), agcount). */
function xfsGroups(bytes: bigint): readonly bigint[] {
  const quarter = ((bytes / blockBytes + 3n) / 4n) * blockBytes;
  return [quarter, 2n * quarter, 3n * quarter, ...every(1024n * gibibyte, bytes)];
}

/** The copies of the superblock (btrfs(5), "Superblock mirrors"). */
const btrfsMirrors: readonly bigint[] = [64n * mebibyte, 256n * gibibyte];

/**
 * Positions on a disk of `bytes` bytes at which traces of earlier use are searched, besides its ends: where file
 * systems keep copies of superblocks and group headers, every 4 MiB of the first 4 GiB, and 4096 positions at equal
 * distances. At most about 5,500, in ascending order. A disk of up to 64 MiB is read completely; on a disk of up to 16
 * GiB, data of 4 MiB or more is always found.
 */
export function extentsOf(bytes: bigint): readonly bigint[] {
  const distance = bytes / positions > extentBytes ? aligned(bytes / positions) : extentBytes;
  const known = [...extCopies(bytes), ...xfsGroups(bytes), ...btrfsMirrors];
  const sampled = [...every(distance, bytes), ...every(atBeginning, bytes < beginning ? bytes : beginning)];
  const all = [...known, ...sampled].map(aligned).filter(at => at < bytes);
  return [...new Set(all)].sort((a, b) => (a < b ? -1 : 1));
}

/**
 * The first of these positions at which a disk holds anything but zeros, as a byte offset; undefined if there is none.
 * Throws "unavailable" when the disk cannot be read or the call ends. The caller must have dropped this node's buffers
 * of the disk.
 */
export async function dataOn(device: BlockDevice, signal: AbortSignal): Promise<bigint | undefined> {
  const { path, number, bytes } = device;
  const slots = fileThreads.onDevice(number);
  const task = `reading ${path}`;
  const left = extentsOf(bytes).values();
  let found: bigint | undefined;
  const reader = async (file: FileHandle): Promise<void> => {
    const buffer = Buffer.alloc(Number(extentBytes));
    for (const at of left) {
      const count = bytes - at < extentBytes ? bytes - at : extentBytes;
      const isZero = await bounded(
        slots.run(() => zeros(file, buffer, at, Number(count))),
        task,
        signal,
      );
      if (!isZero) found = found === undefined || at < found ? at : found;
      if (found !== undefined) return;
    }
  };
  const file = await openDisk(path, signal);
  try {
    await Promise.all(Array.from({ length: callsAtOnce }, () => reader(file)));
  } finally {
    // Closing waits for a read that never returns, so it is not awaited.
    file.close().catch(() => {});
  }
  return found;
}

/** Whether `count` bytes are all zero. Rejects if fewer can be read. */
async function zeros(file: FileHandle, buffer: Buffer, at: bigint, count: number): Promise<boolean> {
  const { bytesRead } = await file.read(buffer, 0, count, at);
  if (bytesRead !== count) throw new Error(`only ${bytesRead} of ${count} bytes at ${at}`);
  return buffer.subarray(0, count).equals(nothing.subarray(0, count));
}

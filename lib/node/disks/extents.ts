import type { FileHandle } from "node:fs/promises";
import { callsAtOnce } from "../../core/semaphore.ts";
import { fileThreads } from "../../io/file-threads.ts";
import { bounded } from "../mount/files.ts";
import type { BlockDevice } from "./block-device.ts";
import { openDisk } from "./open-disk.ts";

const mebibyte = 1n << 20n;
const gibibyte = 1n << 30n;
const blockBytes = 4096n;

/** How many bytes are read at each position: about what one round trip to the storage costs. */
const extentBytes = 16_384n;

const nothing = Buffer.alloc(Number(extentBytes));

/**
 * The number of positions sampled over the whole disk; the size of its beginning and the distance of positions there,
 * in bytes.
 */
const positions = 4096n;
const beginning = 4n * gibibyte;
const atBeginning = 4n * mebibyte;

/** The multiples of `step` from zero up to `end`. */
function* every(step: bigint, end: bigint): Generator<bigint> {
  for (let at = 0n; at < end; at += step) yield at;
}

const aligned = (at: bigint): bigint => (at / blockBytes) * blockBytes;

/**
 * The block groups of ext2 to ext4 with a copy of the superblock: 1 and the powers of 3, 5 and 7 (ext4(5),
 * sparse_super).
 */
function copiedGroups(last: bigint): readonly bigint[] {
  const powers = [3n, 5n, 7n].flatMap(base => {
    const found: bigint[] = [];
    for (let group = base; group <= last; group *= base) found.push(group);
    return found;
  });
  return [1n, ...powers, last].filter(group => group > 0n && group <= last);
}

/**
 * A group has as many blocks as a block has bits (ext4(5)), for every block size; sparse_super2 uses the last group.
 */
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

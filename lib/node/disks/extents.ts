import type { FileHandle } from "node:fs/promises";
import { callsAtOnce } from "../../core/slots.ts";
import { fileThreads } from "../../io/file-threads.ts";
import { bounded } from "../mount/files.ts";
import type { BlockDevice } from "./block-device.ts";
import { openDisk } from "./open-disk.ts";

const mebibyte = 1n << 20n;
const gibibyte = 1n << 30n;
const blockBytes = 4096n;

/** How much is read at each place, in bytes: what costs one round trip to a storage, about. */
const extentBytes = 16_384n;

const nothing = Buffer.alloc(Number(extentBytes));

/** How many places are looked at over the whole disk, and how far apart they are at its beginning. */
const places = 4096n;
const beginning = 4n * gibibyte;
const atBeginning = 4n * mebibyte;

/** Places from zero up to `end`, so far apart. */
function* every(step: bigint, end: bigint): Generator<bigint> {
  for (let at = 0n; at < end; at += step) yield at;
}

const aligned = (at: bigint): bigint => (at / blockBytes) * blockBytes;

/** Groups of ext2 to ext4 that keep a copy of the superblock: 1 and the powers of 3, 5 and 7 (ext4(5), sparse_super). */
function copiedGroups(last: bigint): readonly bigint[] {
  const powers = [3n, 5n, 7n].flatMap(base => {
    const found: bigint[] = [];
    for (let group = base; group <= last; group *= base) found.push(group);
    return found;
  });
  return [1n, ...powers, last].filter(group => group > 0n && group <= last);
}

/** A group has as many blocks as a block has bits (ext4(5)), whatever the size of blocks; sparse_super2 uses the last group. */
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
 * Where on a disk of so many bytes traces of earlier use are looked for besides its edges: where file systems keep copies of their
 * superblocks and heads of groups, each 4 MiB of the first 4 GiB, and 4096 places in equal distances. Some 5,500 in all at most,
 * in the order in which they lie. A disk of up to 64 MiB is read whole, and on one of up to 16 GiB what is 4 MiB long or longer is
 * found wherever it is.
 */
export function extentsOf(bytes: bigint): readonly bigint[] {
  const distance = bytes / places > extentBytes ? aligned(bytes / places) : extentBytes;
  const known = [...extCopies(bytes), ...xfsGroups(bytes), ...btrfsMirrors];
  const sampled = [...every(distance, bytes), ...every(atBeginning, bytes < beginning ? bytes : beginning)];
  const all = [...known, ...sampled].map(aligned).filter(at => at < bytes);
  return [...new Set(all)].sort((a, b) => (a < b ? -1 : 1));
}

/**
 * The first of these places of a disk from which on there is anything but zeros, as the byte; undefined where there is none.
 * Throws "unavailable" when the disk cannot be read or the call ends. The caller has had this node's memory of the disk dropped.
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
    // A read that does not come back keeps the file open: closing waits for it, and nobody waits for the closing.
    file.close().catch(() => {});
  }
  return found;
}

/** Whether so many bytes are all zero. Rejects where fewer can be read. */
async function zeros(file: FileHandle, buffer: Buffer, at: bigint, count: number): Promise<boolean> {
  const { bytesRead } = await file.read(buffer, 0, count, at);
  if (bytesRead !== count) throw new Error(`only ${bytesRead} of ${count} bytes at ${at}`);
  return buffer.subarray(0, count).equals(nothing.subarray(0, count));
}

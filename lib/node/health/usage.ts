import { statfs } from "node:fs/promises";
import { CsiError } from "../../core/errors.ts";
import { commandFailure } from "../../io/commands.ts";
import type { CommandRunner } from "../../io/runner.ts";
import { isOnLocalFilesystem, statMs } from "../mount/file-type.ts";
import { bounded } from "../mount/files.ts";
import type { MountTable } from "../mount/mount-table.ts";

/** One entry of NodeGetVolumeStats: bytes or inodes. Never negative, at most 2^63 - 1. */
export interface Usage {
  readonly unit: "bytes" | "inodes";
  readonly total: bigint;
  /** Absent, like `used`, if only the size is known. */
  readonly available?: bigint;
  readonly used?: bigint;
}

/** The counters of statfs(2); blocks are counted in `blockBytes`. */
export interface StatfsCounts {
  readonly blockBytes: bigint;
  readonly blocks: bigint;
  readonly blocksFree: bigint;
  readonly blocksAvailable: bigint;
  readonly files: bigint;
  readonly filesFree: bigint;
}

/** The largest number that the response can hold; file systems without limits report more (csi.proto, VolumeUsage). */
const most = 2n ** 63n - 1n;

const carried = (count: bigint): bigint => {
  if (count < 0n) return 0n;
  return count > most ? most : count;
};

/** The usage from a file system's counters. Omits inodes if the file system does not count them. */
export function usageOf(counts: StatfsCounts): readonly Usage[] {
  const { blockBytes, blocks, blocksFree, blocksAvailable, files, filesFree } = counts;
  const bytes: Usage = {
    unit: "bytes",
    total: carried(blocks * blockBytes),
    available: carried(blocksAvailable * blockBytes),
    used: carried((blocks - blocksFree) * blockBytes),
  };
  if (files <= 0n) return [bytes];
  return [
    bytes,
    { unit: "inodes", total: carried(files), available: carried(filesFree), used: carried(files - filesFree) },
  ];
}

/** The usage of a raw device, of which only the size is known. */
export const sizeOnly = (bytes: bigint): readonly Usage[] => [{ unit: "bytes", total: carried(bytes) }];

/** Time limit for a measurement, in milliseconds, independent of the calls that wait for it: two runs of a program. */
const measureMs = 2 * statMs + 1_000;

const again = /Resource temporarily unavailable/;

/**
 * Measures file systems, one measurement at a time per volume. Concurrent callers share it, and none of them can cancel
 * it.
 */
export class UsageReader {
  readonly #runner: CommandRunner;
  readonly #running = new Map<string, Promise<readonly Usage[]>>();

  constructor(runner: CommandRunner) {
    this.#runner = runner;
  }

  /**
   * The usage of the file system mounted at a real path. Throws "deadline-exceeded" or "unavailable" when it does not
   * answer.
   */
  async measure(volumeId: string, path: string, table: MountTable, signal: AbortSignal): Promise<readonly Usage[]> {
    const answer = this.#running.get(volumeId) ?? this.#begin(volumeId, path, table);
    return await bounded(answer, `measuring ${path}`, signal);
  }

  #begin(volumeId: string, path: string, table: MountTable): Promise<readonly Usage[]> {
    const signal = AbortSignal.timeout(measureMs);
    const work = isOnLocalFilesystem(path, table) ? ask(path, signal) : this.#askProgram(path, signal);
    const answer = work.then(usageOf).finally(() => this.#running.delete(volumeId));
    this.#running.set(volumeId, answer);
    return answer;
  }

  /** Runs stat(1). The first request to a new SMB mount may fail with EAGAIN, which says nothing about the volume. */
  async #askProgram(path: string, signal: AbortSignal, isLast = false): Promise<StatfsCounts> {
    const task = `measuring ${path}`;
    const command = { argv: ["stat", "-f", "-c", "%S %b %f %a %c %d", path], timeoutMs: statMs } as const;
    const output = await this.#runner.run(command, signal).catch((error: unknown) => {
      throw commandFailure(error, task);
    });
    const counts = output.exitCode === 0 ? parseCounts(output.stdout) : undefined;
    if (counts) return counts;
    if (!isLast && again.test(output.stderr)) return await this.#askProgram(path, signal, true);
    throw new CsiError(
      "unavailable",
      `${task} failed: ${output.stderr.trim().slice(0, 300) || "the output of stat is invalid"}`,
    );
  }
}

async function ask(path: string, signal: AbortSignal): Promise<StatfsCounts> {
  const { bsize, blocks, bfree, bavail, files, ffree } = await bounded(
    statfs(path, { bigint: true }),
    `measuring ${path}`,
    signal,
  );
  return { blockBytes: bsize, blocks, blocksFree: bfree, blocksAvailable: bavail, files, filesFree: ffree };
}

/** The six numbers of `stat -f -c "%S %b %f %a %c %d"` (stat(1)), or undefined for any other text. */
export function parseCounts(text: string): StatfsCounts | undefined {
  const words = text.trim().split(" ");
  if (words.length !== 6 || !words.every(word => /^-?[0-9]{1,20}$/.test(word))) return undefined;
  const [blockBytes = 0n, blocks = 0n, blocksFree = 0n, blocksAvailable = 0n, files = 0n, filesFree = 0n] =
    words.map(BigInt);
  return { blockBytes, blocks, blocksFree, blocksAvailable, files, filesFree };
}

import { statfs } from "node:fs/promises";
import { CsiError } from "../../core/errors.ts";
import { commandFailure } from "../../io/commands.ts";
import type { CommandRunner } from "../../io/runner.ts";
import { isOnLocalFilesystem, statMs } from "../mount/file-type.ts";
import { bounded } from "../mount/files.ts";
import type { MountTable } from "../mount/mount-table.ts";

/** One line of NodeGetVolumeStats: bytes, or numbers of inodes. Never negative, at most 2^63 - 1. */
export interface Usage {
  readonly unit: "bytes" | "inodes";
  readonly total: bigint;
  /** Absent, as `used` is, where only the size is known. */
  readonly available?: bigint;
  readonly used?: bigint;
}

/** What statfs(2) tells; blocks are counted in `blockBytes`. */
export interface StatfsCounts {
  readonly blockBytes: bigint;
  readonly blocks: bigint;
  readonly blocksFree: bigint;
  readonly blocksAvailable: bigint;
  readonly files: bigint;
  readonly filesFree: bigint;
}

/** The greatest number that an answer can carry; file systems without limits claim more (csi.proto, VolumeUsage). */
const most = 2n ** 63n - 1n;

const carried = (count: bigint): bigint => {
  if (count < 0n) return 0n;
  return count > most ? most : count;
};

/** The usage from a file system's counters. Inodes are left out where the file system does not count them. */
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

/** The usage of a raw device: nobody knows what of it is used. */
export const sizeOnly = (bytes: bigint): readonly Usage[] => [{ unit: "bytes", total: carried(bytes) }];

/** How long measuring may take, in milliseconds, whoever waits for it: two questions of a program. */
const measureMs = 2 * statMs + 1_000;

const again = /Resource temporarily unavailable/;

/** Measures file systems, one at a time for each volume: callers that come meanwhile share the answer, and none ends it for the others. */
export class UsageReader {
  readonly #runner: CommandRunner;
  readonly #running = new Map<string, Promise<readonly Usage[]>>();

  constructor(runner: CommandRunner) {
    this.#runner = runner;
  }

  /** The file system mounted at a real place. Throws "deadline-exceeded" or "unavailable" when it does not answer. */
  async measure(volumeId: string, place: string, table: MountTable, signal: AbortSignal): Promise<readonly Usage[]> {
    const answer = this.#running.get(volumeId) ?? this.#begin(volumeId, place, table);
    return await bounded(answer, `measuring ${place}`, signal);
  }

  #begin(volumeId: string, place: string, table: MountTable): Promise<readonly Usage[]> {
    const signal = AbortSignal.timeout(measureMs);
    const work = isOnLocalFilesystem(place, table) ? ask(place, signal) : this.#askProgram(place, signal);
    const answer = work.then(usageOf).finally(() => this.#running.delete(volumeId));
    this.#running.set(volumeId, answer);
    return answer;
  }

  /** The first question to a new mount of SMB may be answered with "try again" (EAGAIN), which says nothing about the volume. */
  async #askProgram(place: string, signal: AbortSignal, isLast = false): Promise<StatfsCounts> {
    const task = `measuring ${place}`;
    const command = { argv: ["stat", "-f", "-c", "%S %b %f %a %c %d", place], timeoutMs: statMs } as const;
    const output = await this.#runner.run(command, signal).catch((error: unknown) => {
      throw commandFailure(error, task);
    });
    const counts = output.exitCode === 0 ? parseCounts(output.stdout) : undefined;
    if (counts) return counts;
    if (!isLast && again.test(output.stderr)) return await this.#askProgram(place, signal, true);
    throw new CsiError(
      "unavailable",
      `${task} failed: ${output.stderr.trim().slice(0, 300) || "the answer of stat is unreadable"}`,
    );
  }
}

async function ask(place: string, signal: AbortSignal): Promise<StatfsCounts> {
  const { bsize, blocks, bfree, bavail, files, ffree } = await bounded(
    statfs(place, { bigint: true }),
    `measuring ${place}`,
    signal,
  );
  return { blockBytes: bsize, blocks, blocksFree: bfree, blocksAvailable: bavail, files, filesFree: ffree };
}

/** The six numbers of `stat -f -c "%S %b %f %a %c %d"` (stat(1)), or undefined when the text holds anything else. */
export function parseCounts(text: string): StatfsCounts | undefined {
  const words = text.trim().split(" ");
  if (words.length !== 6 || !words.every(word => /^-?[0-9]{1,20}$/.test(word))) return undefined;
  const [blockBytes = 0n, blocks = 0n, blocksFree = 0n, blocksAvailable = 0n, files = 0n, filesFree = 0n] =
    words.map(BigInt);
  return { blockBytes, blocks, blocksFree, blocksAvailable, files, filesFree };
}

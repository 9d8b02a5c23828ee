import type { BigIntStatsFs } from "node:fs";
import { statfs } from "node:fs/promises";
import { maxInt64 } from "../../core/bytes.ts";
import type { Call, Log } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Condition } from "../../health/condition-tracker.ts";
import type { Finding } from "../../health/finding.ts";
import { type CommandRunner, run } from "../../io/runner.ts";
import { bounded, isOnLocalFilesystem, statMs } from "../mount/files.ts";
import type { MountTable } from "../mount/mount-table.ts";
import type { NodeParts } from "../parts.ts";
import type { StageRecord } from "../state/stage-records.ts";
import { checkMount } from "./findings.ts";
import type { VolumeHealthMonitor } from "./monitor.ts";

/** One entry of NodeGetVolumeStats: bytes or inodes. Never negative, at most 2^63 - 1. */
export interface Usage {
  readonly unit: "bytes" | "inodes";
  readonly total: bigint;
  /** Absent, like `used`, if only the size is known. */
  readonly available?: bigint;
  readonly used?: bigint;
}

/** The counters of statfs(2); blocks are counted in `bsize`. */
export type StatfsCounts = Pick<BigIntStatsFs, "bsize" | "blocks" | "bfree" | "bavail" | "files" | "ffree">;

/** A count as the response can hold it; file systems without limits report more. */
const carried = (count: bigint): bigint => {
  if (count < 0n) return 0n;
  return count > maxInt64 ? maxInt64 : count;
};

/** The usage from a file system's counters. Omits inodes if the file system does not count them. */
export function usageOf({ bsize, blocks, bfree, bavail, files, ffree }: StatfsCounts): readonly Usage[] {
  const bytes: Usage = {
    unit: "bytes",
    total: carried(blocks * bsize),
    available: carried(bavail * bsize),
    used: carried((blocks - bfree) * bsize),
  };
  if (files <= 0n) return [bytes];
  return [bytes, { unit: "inodes", total: carried(files), available: carried(ffree), used: carried(files - ffree) }];
}

/** Time limit for a measurement, in milliseconds, independent of the calls that wait for it: three runs of a program. */
const measureMs = 3 * statMs + 1_000;

const again = /Resource temporarily unavailable/;

/** The usage at a real mount point. Throws "deadline-exceeded" or "unavailable" when it does not answer. */
async function measured(path: string, table: MountTable, runner: CommandRunner, signal: AbortSignal) {
  const counts = isOnLocalFilesystem(path, table)
    ? bounded(statfs(path, { bigint: true }), `measuring ${path}`, signal)
    : askProgram(path, runner, signal);
  return usageOf(await counts);
}

/** Runs stat(1). The first request to a new SMB mount may fail with EAGAIN, which says nothing about the volume. */
async function askProgram(
  path: string,
  runner: CommandRunner,
  signal: AbortSignal,
  isLast = false,
): Promise<StatfsCounts> {
  const task = `measuring ${path}`;
  const command = { argv: ["stat", "-f", "-c", "%S %b %f %a %c %d", path], timeoutMs: statMs } as const;
  const output = await run(runner, command, task, signal);
  const counts = output.exitCode === 0 ? parseCounts(output.stdout) : undefined;
  if (counts) return counts;
  if (!isLast && again.test(output.stderr)) return await askProgram(path, runner, signal, true);
  const text = `${task} failed: ${output.stderr.trim().slice(0, 300) || "the output of stat is invalid"}`;
  throw new CsiError("unavailable", text);
}

/** The six numbers of `stat -f -c "%S %b %f %a %c %d"` (stat(1)), or undefined for any other text. */
export function parseCounts(text: string): StatfsCounts | undefined {
  const words = text.trim().split(" ");
  if (words.length !== 6 || !words.every(word => /^-?[0-9]{1,20}$/.test(word))) return undefined;
  const [bsize = 0n, blocks = 0n, bfree = 0n, bavail = 0n, files = 0n, ffree = 0n] = words.map(BigInt);
  return { bsize, blocks, bfree, bavail, files, ffree };
}

/** A volume mounted at a real path. `record` is absent if csimux did not stage it. */
export interface MountedVolume {
  readonly volumeId: string;
  readonly path: string;
  readonly table: MountTable;
  readonly record: StageRecord | undefined;
}

/** The result of measuring a mounted volume. */
export interface VolumeMeasurement {
  /** Empty when the volume does not answer. */
  readonly usage: readonly Usage[];
  /** The volume's problems. */
  readonly conditions: readonly Condition[];
  /** The reason for missing usage. */
  readonly failure: CsiError | undefined;
}

/**
 * Measures mounted volumes, and records the problems found: one measurement per volume at a time, which concurrent callers share and
 * cannot cancel.
 */
export class VolumeStats {
  readonly #running = new Map<string, Promise<VolumeMeasurement>>();
  readonly #parts: NodeParts;
  readonly #runner: CommandRunner;
  readonly #monitor: VolumeHealthMonitor;

  constructor(parts: NodeParts, runner: CommandRunner, monitor: VolumeHealthMonitor) {
    this.#parts = parts;
    this.#runner = runner;
    this.#monitor = monitor;
  }

  /** Measures a volume. Throws errors that say nothing about the volume. */
  async measure(seen: MountedVolume, call: Call): Promise<VolumeMeasurement> {
    const { volumeId, path } = seen;
    const begin = () => {
      const work = this.#measure(seen, call.log, AbortSignal.timeout(measureMs));
      const answer = work.finally(() => this.#running.delete(volumeId));
      this.#running.set(volumeId, answer);
      return answer;
    };
    return await bounded(this.#running.get(volumeId) ?? begin(), `measuring ${path}`, call.signal);
  }

  async #measure(seen: MountedVolume, log: Log, signal: AbortSignal): Promise<VolumeMeasurement> {
    const { volumeId, path, table, record } = seen;
    const { state, error, findings } = await checkMount(table.top(path), record, this.#parts, signal);
    const conditions = record
      ? this.#monitor.see(volumeId, await this.#monitor.withPaths(record, findings), log)
      : untracked(findings);
    // A file system still answers from memory when its disk is gone, and often when it has failed.
    const isGone = state === "silent" || findings.some(({ reason }) => reason === "DeviceGone");
    if (isGone) return { usage: [], conditions, failure: error };
    try {
      return { usage: await this.#usage(seen, signal), conditions, failure: undefined };
    } catch (failure) {
      if (state === "failed") return { usage: [], conditions, failure: error };
      throw failure;
    }
  }

  /** The problems of a mounted volume that csimux did not stage. Throws errors that say nothing about it. */
  async health({ path, table }: MountedVolume, call: Call): Promise<readonly Condition[]> {
    return untracked((await checkMount(table.top(path), undefined, this.#parts, call.signal)).findings);
  }

  async #usage({ path, table, record }: MountedVolume, signal: AbortSignal): Promise<readonly Usage[]> {
    if (record?.kind === "block") return [{ unit: "bytes", total: carried(await this.#parts.disks.bytes(path)) }];
    return await measured(path, table, this.#runner, signal);
  }
}

const untracked = (findings: readonly Finding[]): readonly Condition[] => findings.map(each => ({ ...each, ms: 0 }));

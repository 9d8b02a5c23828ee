import type { BigIntStatsFs } from "node:fs";
import { statfs } from "node:fs/promises";
import { maxInt64 } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { isLocalName, type Mount } from "../../core/mountinfo.ts";
import type { Condition } from "../../health/condition-tracker.ts";
import type { Finding } from "../../health/finding.ts";
import { type CommandRunner, run } from "../../io/runner.ts";
import { bounded, isOnLocalFilesystem, statMs } from "../mount/files.ts";
import type { MountTable } from "../mount/mount-table.ts";
import type { NodeParts } from "../parts.ts";
import type { StageRecord } from "../state/stage-records.ts";
import { failureFinding, hasLostDisk, lostDisk, mountFindings, mountTableFindings } from "./findings.ts";
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

/** Time limit for a measurement, in milliseconds, independent of the calls that wait for it: two runs of a program. */
const measureMs = 2 * statMs + 1_000;

const again = /Resource temporarily unavailable/;

/** Measures file systems, one measurement per volume at a time, which concurrent callers share and cannot cancel. */
export class UsageReader {
  readonly #runner: CommandRunner;
  readonly #running = new Map<string, Promise<readonly Usage[]>>();

  constructor(runner: CommandRunner) {
    this.#runner = runner;
  }

  /** The usage at a real mount point. Throws "deadline-exceeded" or "unavailable" when it does not answer. */
  async measure(volumeId: string, path: string, table: MountTable, signal: AbortSignal): Promise<readonly Usage[]> {
    const answer = this.#running.get(volumeId) ?? this.#begin(volumeId, path, table);
    return await bounded(answer, `measuring ${path}`, signal);
  }

  #begin(volumeId: string, path: string, table: MountTable): Promise<readonly Usage[]> {
    const signal = AbortSignal.timeout(measureMs);
    const work = isOnLocalFilesystem(path, table)
      ? bounded(statfs(path, { bigint: true }), `measuring ${path}`, signal)
      : this.#askProgram(path, signal);
    const answer = work.then(usageOf).finally(() => this.#running.delete(volumeId));
    this.#running.set(volumeId, answer);
    return answer;
  }

  /** Runs stat(1). The first request to a new SMB mount may fail with EAGAIN, which says nothing about the volume. */
  async #askProgram(path: string, signal: AbortSignal, isLast = false): Promise<StatfsCounts> {
    const task = `measuring ${path}`;
    const command = { argv: ["stat", "-f", "-c", "%S %b %f %a %c %d", path], timeoutMs: statMs } as const;
    const output = await run(this.#runner, command, task, signal);
    const counts = output.exitCode === 0 ? parseCounts(output.stdout) : undefined;
    if (counts) return counts;
    if (!isLast && again.test(output.stderr)) return await this.#askProgram(path, signal, true);
    const text = `${task} failed: ${output.stderr.trim().slice(0, 300) || "the output of stat is invalid"}`;
    throw new CsiError("unavailable", text);
  }
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

/** Measures mounted volumes, and records the problems found. */
export class VolumeStats {
  readonly #parts: NodeParts;
  readonly #usages: UsageReader;
  readonly #monitor: VolumeHealthMonitor;

  constructor(parts: NodeParts, usages: UsageReader, monitor: VolumeHealthMonitor) {
    this.#parts = parts;
    this.#usages = usages;
    this.#monitor = monitor;
  }

  /** Measures a volume. Throws errors that say nothing about the volume. */
  async measure(seen: MountedVolume, call: Call): Promise<VolumeMeasurement> {
    const { path, table, record } = seen;
    const mount = table.top(path);
    try {
      const usage = await this.#usage(seen, call);
      // A server has just answered; a failed disk may still be measurable through its file system.
      const isDisk = mount && isLocalName(mount.fsType);
      const found = isDisk
        ? await mountFindings(mount, record, this.#parts, call.signal)
        : tableFindings(mount, record);
      return { usage, conditions: await this.conditionsAfter(seen, found, call), failure: undefined };
    } catch (error) {
      if (!(error instanceof CsiError) || call.signal.aborted) throw error;
      const isLost = record !== undefined && (await hasLostDisk(record, this.#parts.disks));
      const finding = isLost ? lostDisk(record) : failureFinding(error, mount);
      if (!finding) throw error;
      const conditions = await this.conditionsAfter(seen, [...tableFindings(mount, record), finding], call);
      return { usage: [], conditions, failure: error };
    }
  }

  /** The problems of a mounted volume that csimux did not stage. Throws errors that say nothing about it. */
  async health({ path, table }: MountedVolume, call: Call): Promise<readonly Condition[]> {
    const mount = table.top(path);
    const found = mount ? await mountFindings(mount, undefined, this.#parts, call.signal) : [];
    return found.map(each => ({ ...each, ms: 0 }));
  }

  /** The conditions after a check; for a volume that csimux did not stage, they are just the findings. */
  async conditionsAfter(
    { volumeId, record }: Pick<MountedVolume, "volumeId" | "record">,
    found: readonly Finding[],
    call: Call,
  ): Promise<readonly Condition[]> {
    if (!record) return found.map(each => ({ ...each, ms: 0 }));
    return this.#monitor.see(volumeId, await this.#monitor.withPaths(record, found), call.log);
  }

  /** Checks the disk first: a file system still answers from memory when its disk is gone. */
  async #usage({ volumeId, path, table, record }: MountedVolume, call: Call): Promise<readonly Usage[]> {
    if (record && (await hasLostDisk(record, this.#parts.disks)))
      throw new CsiError("unavailable", `the disk of volume "${volumeId}" is gone from this node; stage it again`);
    if (record?.kind === "block") return [{ unit: "bytes", total: carried(await this.#parts.disks.bytes(path)) }];
    return await this.#usages.measure(volumeId, path, table, call.signal);
  }
}

const tableFindings = (mount: Mount | undefined, record: StageRecord | undefined): readonly Finding[] =>
  mount ? mountTableFindings(mount, record) : [];

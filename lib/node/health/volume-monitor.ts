import type { Log } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Finding } from "../../health/finding.ts";
import { meaningOf, severityWords } from "../../health/reasons.ts";
import { type Change, type Condition, Steady } from "../../health/steady.ts";
import type { Attachers } from "../attach/attachers.ts";
import type { Disks } from "../disks/disks.ts";
import type { Mounts } from "../mount/mounts.ts";
import type { Context } from "../requests.ts";
import type { PeriodicTask } from "../state/maintenance.ts";
import type { MountOwnership } from "../state/ownership.ts";
import { type StageRecord, type StageRecords, stagedAt } from "../state/stage-records.ts";
import { hasLostDisk, lostDisk, mountFindings } from "./mount-findings.ts";
import type { StorageHealth, StorageHealthMonitor } from "./storage-monitor.ts";

/** How many volumes are looked at at the same time. */
const width = 8;

/** What is looked at, and through what. */
export interface MonitorParts {
  readonly mounts: Mounts;
  readonly records: StageRecords;
  readonly ownership: MountOwnership;
  readonly attachers: Attachers;
  readonly disks: Pick<Disks, "isGone">;
}

/** What is wrong with a volume on this node. */
export interface VolumeHealth {
  readonly volume: string;
  readonly conditions: readonly Condition[];
}

/**
 * What is wrong with the volumes of this node: a server that fell silent, a way that was lost, a mount that somebody removed. Each
 * change is a line of the log. It mends nothing: the next staging does, when a pod needs the volume.
 */
export class VolumeHealthMonitor implements PeriodicTask {
  readonly #mounts: Mounts;
  readonly #records: StageRecords;
  readonly #ownership: MountOwnership;
  readonly #attachers: Attachers;
  readonly #disks: Pick<Disks, "isGone">;
  readonly #storages: StorageHealthMonitor;
  readonly #elsewhere: () => Promise<readonly Context[]>;
  readonly #conditions: Steady;
  /** Volumes that this process has seen mounted: after a restart of the machine records tell of mounts that are gone for good. */
  readonly #seenMounted = new Set<string>();
  #hasRun = false;

  /** `elsewhere` gives contexts of volumes that this node might get. */
  constructor(
    parts: MonitorParts,
    storages: StorageHealthMonitor,
    elsewhere: () => Promise<readonly Context[]>,
    holdMs: number,
  ) {
    this.#mounts = parts.mounts;
    this.#records = parts.records;
    this.#ownership = parts.ownership;
    this.#attachers = parts.attachers;
    this.#disks = parts.disks;
    this.#storages = storages;
    this.#elsewhere = elsewhere;
    this.#conditions = new Steady(holdMs);
  }

  /** One look at all volumes and storages. Never throws. */
  async run(log: Log, signal: AbortSignal): Promise<void> {
    const records = await this.#records.all();
    this.#forgetOthers(records);
    const seen: { readonly context: Context; readonly findings: readonly Finding[] }[] = [];
    for (let from = 0; from < records.length; from += width) {
      const part = records.slice(from, from + width);
      const findings = await Promise.all(part.map(record => this.#check(record, log, signal)));
      for (const [index, { context }] of part.entries()) {
        const found = findings[index];
        if (found) seen.push({ context, findings: found });
      }
    }
    const elsewhere = await this.#elsewhere().catch(() => []);
    await this.#storages.record(seen, elsewhere, !this.#hasRun, signal);
    this.#hasRun = true;
  }

  /** Takes down what a look at one staged volume has found, and returns what holds for it now. */
  see(volumeId: string, findings: readonly Finding[], log: Log): readonly Condition[] {
    this.#log(this.#conditions.see(volumeId, findings, !this.#hasRun), log);
    return this.#conditions.of(volumeId);
  }

  /** What is wrong with a staged volume. Throws what says nothing about it. */
  async findings(record: StageRecord, signal: AbortSignal): Promise<readonly Finding[]> {
    const table = await this.#mounts.table();
    const at = stagedAt(record);
    const top = table.top(at);
    if (!top || !(await this.#ownership.owns(record.volumeId, record, at, table))) {
      const isUsed = record.published.some(({ target }) => table.layers(target) > 0);
      // A volume of which a staging failed, or that nobody uses any more since a restart, is mounted nowhere and well.
      const isGone = record.shows !== undefined && (isUsed || this.#seenMounted.has(record.volumeId));
      return isGone ? [{ reason: "NotMounted", message: `nothing of the volume is mounted at ${at} any more` }] : [];
    }
    this.#seenMounted.add(record.volumeId);
    if (await hasLostDisk(record, this.#disks)) return [lostDisk(record)];
    const ofMount = await mountFindings(top, record, this.#mounts, signal);
    return [...ofMount, ...(await this.pathFindings(record))];
  }

  /** What is wrong with the way to a staged volume. */
  async pathFindings(record: StageRecord): Promise<readonly Finding[]> {
    return (await this.#attachers.get(record.protocol)?.health?.(record)) ?? [];
  }

  /** What is known at this moment; asks nobody. */
  view(): { readonly volumes: readonly VolumeHealth[]; readonly storages: readonly StorageHealth[] } {
    const volumes = this.#conditions.subjects().map(volume => ({ volume, conditions: this.#conditions.of(volume) }));
    return { volumes, storages: this.#storages.view() };
  }

  async #check(record: StageRecord, log: Log, signal: AbortSignal): Promise<readonly Finding[] | undefined> {
    const { volumeId } = record;
    try {
      const findings = await this.findings(record, signal);
      this.see(volumeId, findings, log);
      return findings;
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      log.debug("a staged volume could not be looked at", { volumeId, reason: error.message });
      return undefined;
    }
  }

  /** What is no longer staged is not asked about any more. */
  #forgetOthers(records: readonly StageRecord[]): void {
    const here = new Set(records.map(({ volumeId }) => volumeId));
    for (const volumeId of this.#seenMounted) if (!here.has(volumeId)) this.#seenMounted.delete(volumeId);
    for (const volumeId of this.#conditions.watched()) if (!here.has(volumeId)) this.#conditions.forget(volumeId);
  }

  #log(changes: readonly Change[], log: Log): void {
    for (const { subject: volumeId, reason, message, came } of changes) {
      const word = severityWords[meaningOf(reason).severity];
      if (came) log.warn(`a volume on this node is ${word}`, { volumeId, reason, detail: message });
      else log.info(`a volume on this node is no longer ${word}`, { volumeId, reason });
    }
  }
}

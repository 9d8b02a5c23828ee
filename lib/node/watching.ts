import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Finding } from "../health/finding.ts";
import { meaningOf, severityWords } from "../health/reasons.ts";
import { type Change, type Condition, Steady } from "../health/steady.ts";
import type { Attachers } from "./attachers.ts";
import type { Look } from "./care.ts";
import { hasLostDisk, lostDisk, mountFindings } from "./condition.ts";
import type { Disks } from "./disks.ts";
import type { Mounts } from "./mounts.ts";
import type { Ownership } from "./ownership.ts";
import { type Records, type StageRecord, stagedAt } from "./records.ts";
import type { Context } from "./requests.ts";
import type { StorageHealth, Storages } from "./storages.ts";

/** How many volumes are looked at at the same time. */
const width = 8;

/** What is looked at, and through what. */
export interface WatchedParts {
  readonly mounts: Mounts;
  readonly records: Records;
  readonly ownership: Ownership;
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
export class Watching implements Look {
  readonly #mounts: Mounts;
  readonly #records: Records;
  readonly #ownership: Ownership;
  readonly #attachers: Attachers;
  readonly #disks: Pick<Disks, "isGone">;
  readonly #storages: Storages;
  readonly #elsewhere: () => Promise<readonly Context[]>;
  readonly #steady: Steady;
  /** Volumes that this process has seen mounted: after a restart of the machine records tell of mounts that are gone for good. */
  readonly #met = new Set<string>();
  #looked = false;

  /** `elsewhere` gives contexts of volumes that this node might get. */
  constructor(parts: WatchedParts, storages: Storages, elsewhere: () => Promise<readonly Context[]>, holdMs: number) {
    this.#mounts = parts.mounts;
    this.#records = parts.records;
    this.#ownership = parts.ownership;
    this.#attachers = parts.attachers;
    this.#disks = parts.disks;
    this.#storages = storages;
    this.#elsewhere = elsewhere;
    this.#steady = new Steady(holdMs);
  }

  /** One look at all volumes and storages. Never throws. */
  async look(log: Log, signal: AbortSignal): Promise<void> {
    const records = await this.#records.all();
    this.#forgetOthers(records);
    const seen: { readonly context: Context; readonly findings: readonly Finding[] }[] = [];
    for (let from = 0; from < records.length; from += width) {
      const part = records.slice(from, from + width);
      const findings = await Promise.all(part.map(record => this.#lookAt(record, log, signal)));
      for (const [index, { context }] of part.entries()) {
        const found = findings[index];
        if (found) seen.push({ context, findings: found });
      }
    }
    const elsewhere = await this.#elsewhere().catch(() => []);
    await this.#storages.see(seen, elsewhere, !this.#looked, signal);
    this.#looked = true;
  }

  /** Takes down what a look at one staged volume has found, and returns what holds for it now. */
  see(volumeId: string, findings: readonly Finding[], log: Log): readonly Condition[] {
    this.#tell(this.#steady.see(volumeId, findings, !this.#looked), log);
    return this.#steady.of(volumeId);
  }

  /** What is wrong with a staged volume. Throws what says nothing about it. */
  async findings(record: StageRecord, signal: AbortSignal): Promise<readonly Finding[]> {
    const table = await this.#mounts.table();
    const at = stagedAt(record);
    const top = table.top(at);
    if (!top || !(await this.#ownership.isOwn(record.volumeId, record, at, table))) {
      const isUsed = record.published.some(({ target }) => table.layers(target) > 0);
      // A volume of which a staging failed, or that nobody uses any more since a restart, is mounted nowhere and well.
      const isGone = record.shows !== undefined && (isUsed || this.#met.has(record.volumeId));
      return isGone ? [{ reason: "NotMounted", message: `nothing of the volume is mounted at ${at} any more` }] : [];
    }
    this.#met.add(record.volumeId);
    if (await hasLostDisk(record, this.#disks)) return [lostDisk(record)];
    const ofMount = await mountFindings(top, record, this.#mounts, signal);
    return [...ofMount, ...(await this.attached(record))];
  }

  /** What is wrong with the way to a staged volume. */
  async attached(record: StageRecord): Promise<readonly Finding[]> {
    return (await this.#attachers.get(record.protocol)?.health?.(record)) ?? [];
  }

  /** What is known at this moment; asks nobody. */
  view(): { readonly volumes: readonly VolumeHealth[]; readonly storages: readonly StorageHealth[] } {
    const volumes = this.#steady.subjects().map(volume => ({ volume, conditions: this.#steady.of(volume) }));
    return { volumes, storages: this.#storages.view() };
  }

  async #lookAt(record: StageRecord, log: Log, signal: AbortSignal): Promise<readonly Finding[] | undefined> {
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
    for (const volumeId of this.#met) if (!here.has(volumeId)) this.#met.delete(volumeId);
    for (const volumeId of this.#steady.watched()) if (!here.has(volumeId)) this.#steady.forget(volumeId);
  }

  #tell(changes: readonly Change[], log: Log): void {
    for (const { subject: volumeId, reason, message, came } of changes) {
      const word = severityWords[meaningOf(reason).severity];
      if (came) log.warn(`a volume on this node is ${word}`, { volumeId, reason, detail: message });
      else log.info(`a volume on this node is no longer ${word}`, { volumeId, reason });
    }
  }
}

import type { Log } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { mapLimit } from "../../core/semaphore.ts";
import { type Change, type Condition, ConditionTracker } from "../../health/condition-tracker.ts";
import type { Finding } from "../../health/finding.ts";
import { reasonText, severityWords } from "../../health/reasons.ts";
import { storageFindings } from "../../health/storage.ts";
import type { Answers } from "../../io/dial.ts";
import type { StorageAddresses } from "../attach/attacher.ts";
import { type Attachers, protocolKey } from "../attach/attachers.ts";
import type { NodeParts } from "../parts.ts";
import type { VolumeContext } from "../requests.ts";
import { type StageRecord, stagedAt } from "../state/stage-records.ts";
import { checkMount } from "./findings.ts";

/** How many volumes are checked at once. */
const atOnce = 8;

/** A volume and its problems on this node. */
export interface VolumeHealth {
  readonly volume: string;
  readonly conditions: readonly Condition[];
}

/**
 * Detects problems of the volumes on this node, such as a silent server, a lost path or a removed mount, and logs each
 * change. Repairs nothing: the next staging does, when a pod needs the volume.
 */
export class VolumeHealthMonitor {
  readonly #parts: NodeParts;
  readonly #storages: StorageHealthMonitor;
  readonly #elsewhere: () => Promise<readonly VolumeContext[]>;
  readonly #conditions: ConditionTracker;
  /** Volumes that this process has seen mounted: after a reboot, records describe mounts that no longer exist. */
  readonly #seenMounted = new Set<string>();
  #hasRun = false;

  /** `elsewhere` returns contexts of volumes that this node might get. */
  constructor(
    parts: NodeParts,
    storages: StorageHealthMonitor,
    elsewhere: () => Promise<readonly VolumeContext[]>,
    holdMs: number,
  ) {
    this.#parts = parts;
    this.#storages = storages;
    this.#elsewhere = elsewhere;
    this.#conditions = new ConditionTracker(holdMs);
  }

  /** Checks all volumes and storage systems once. Never throws. */
  async run(log: Log, signal: AbortSignal): Promise<void> {
    const records = await this.#parts.records.all();
    this.#forgetOthers(records);
    const seen: VolumeReport[] = [];
    await mapLimit(records, atOnce, async record => {
      const findings = await this.#check(record, log, signal);
      if (findings) seen.push({ context: record.context, findings });
    });
    const elsewhere = await this.#elsewhere().catch(() => []);
    await this.#storages.record(seen, elsewhere, !this.#hasRun, signal);
    this.#hasRun = true;
  }

  /** Records the findings of a check of a staged volume, and returns its current conditions. */
  see(volumeId: string, findings: readonly Finding[], log: Log): readonly Condition[] {
    this.#log(this.#conditions.record(volumeId, findings, !this.#hasRun), log);
    return this.#conditions.of(volumeId);
  }

  /** The problems of a staged volume. Throws errors that say nothing about the volume. */
  async findings(record: StageRecord, signal: AbortSignal): Promise<readonly Finding[]> {
    const table = await this.#parts.mounts.table();
    const at = stagedAt(record);
    const top = table.top(at);
    if (!top || !(await this.#parts.ownership.owns(record.volumeId, record, at, table))) {
      const isUsed = record.published.some(({ target }) => table.layers(target) > 0);
      // Not a problem: a staging of the volume failed, or it has not been used since a reboot.
      const isGone = record.shows !== undefined && (isUsed || this.#seenMounted.has(record.volumeId));
      return isGone ? [{ reason: "NotMounted", message: `the volume is no longer mounted at ${at}` }] : [];
    }
    this.#seenMounted.add(record.volumeId);
    return await this.withPaths(record, (await checkMount(top, record, this.#parts, signal)).findings);
  }

  /** Adds the problems of the paths to a staged volume to those of its mount; without its disk, they say nothing more. */
  async withPaths(record: StageRecord, found: readonly Finding[]): Promise<readonly Finding[]> {
    if (found.some(({ reason }) => reason === "DeviceGone")) return found;
    return [...found, ...((await this.#parts.attachers.get(record.protocol)?.health?.(record)) ?? [])];
  }

  /** The conditions known now, without new checks. */
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
      log.debug("cannot check a staged volume", { volumeId, reason: error.message });
      return undefined;
    }
  }

  /** Forgets volumes that are no longer staged. */
  #forgetOthers(records: readonly StageRecord[]): void {
    const here = new Set(records.map(({ volumeId }) => volumeId));
    for (const volumeId of this.#seenMounted) if (!here.has(volumeId)) this.#seenMounted.delete(volumeId);
    for (const volumeId of this.#conditions.tracked()) if (!here.has(volumeId)) this.#conditions.forget(volumeId);
  }

  #log(changes: readonly Change[], log: Log): void {
    for (const { subject: volumeId, reason, message, came } of changes) {
      const word = severityWords[reasonText(reason).severity];
      if (came) log.warn(`a volume on this node is ${word}`, { volumeId, reason, detail: message });
      else log.info(`a volume on this node is no longer ${word}`, { volumeId, reason });
    }
  }
}

/** A volume context, and the volume's problems on this node. */
export interface VolumeReport {
  readonly context: VolumeContext;
  readonly findings: readonly Finding[];
}

/** A storage system and its problems as this node sees them. */
export interface StorageHealth {
  readonly storage: string;
  readonly conditions: readonly Condition[];
}

/** The health of storage systems that this node's volumes, or volumes it might get, are on (NodeGetStorageHealth). */
export class StorageHealthMonitor {
  readonly #attachers: Attachers;
  readonly #answers: Answers;
  readonly #conditions: ConditionTracker;

  constructor(attachers: Attachers, answers: Answers, holdMs: number) {
    this.#attachers = attachers;
    this.#answers = answers;
    this.#conditions = new ConditionTracker(holdMs);
  }

  /**
   * Records one check of all storage systems. `elsewhere` are contexts of volumes that this node might get; storage
   * without a volume on this node is probed for reachability.
   */
  async record(
    here: readonly VolumeReport[],
    elsewhere: readonly VolumeContext[],
    isFirst: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const volumes = new Map<string, (readonly Finding[])[]>();
    for (const { context, findings } of here) {
      const name = this.#storageOf(context)?.name;
      if (name !== undefined) volumes.set(name, [...(volumes.get(name) ?? []), findings]);
    }
    const others = new Map<string, StorageAddresses>();
    for (const context of elsewhere) {
      const storage = this.#storageOf(context);
      if (storage && !volumes.has(storage.name)) others.set(storage.name, storage);
    }
    const asked = await Promise.all([...others.values()].map(each => this.#isReachable(each, signal)));
    const all = [
      ...[...volumes].map(([name, findings]) => ({ name, volumes: findings, answers: undefined })),
      ...[...others.keys()].map((name, index) => ({ name, volumes: [], answers: asked[index] })),
    ];
    for (const view of all) this.#conditions.record(view.name, storageFindings(view), isFirst);
    const names = new Set(all.map(({ name }) => name));
    for (const name of this.#conditions.tracked()) if (!names.has(name)) this.#conditions.forget(name);
  }

  /** The known problems of storage systems. */
  view(): readonly StorageHealth[] {
    return this.#conditions.subjects().map(storage => ({ storage, conditions: this.#conditions.of(storage) }));
  }

  #storageOf(context: VolumeContext): StorageAddresses | undefined {
    try {
      return this.#attachers.get(context[protocolKey] ?? "")?.storageOf?.(context);
    } catch (error) {
      if (error instanceof CsiError) return undefined;
      throw error;
    }
  }

  /** Whether one of its addresses accepts connections; undefined if there is none to probe. */
  async #isReachable({ addresses }: StorageAddresses, signal: AbortSignal): Promise<boolean | undefined> {
    if (addresses.length === 0) return undefined;
    const answers = await Promise.all(addresses.map(({ host, port }) => this.#answers(host, port, signal)));
    return answers.includes(true);
  }
}

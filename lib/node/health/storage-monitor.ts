import { CsiError } from "../../core/errors.ts";
import { type Condition, ConditionTracker } from "../../health/condition-tracker.ts";
import type { Finding } from "../../health/finding.ts";
import { storageFindings } from "../../health/storage.ts";
import type { Answers } from "../../io/answers.ts";
import type { StorageAddresses } from "../attach/attacher.ts";
import { type Attachers, protocolKey } from "../attach/attachers.ts";
import type { Context } from "../requests.ts";

/** A volume context, and the volume's problems on this node. */
export interface VolumeReport {
  readonly context: Context;
  readonly findings: readonly Finding[];
}

/** A storage system and its problems as this node sees them. */
export interface StorageHealth {
  readonly storage: string;
  readonly conditions: readonly Condition[];
}

/**
 * Reports the storage systems of this node (CSI NodeGetStorageHealth), both of its volumes and of volumes on other
 * nodes.
 */
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
    elsewhere: readonly Context[],
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

  #storageOf(context: Context): StorageAddresses | undefined {
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

import { CsiError } from "../../lib/core/errors.ts";
import type { Source } from "../../lib/drivers/driver.ts";
import type { Notes, StoredVolume } from "../../lib/drivers/store.ts";

/** A volume of the toy: what is not given is empty. */
export interface ToyVolume {
  readonly id: string;
  readonly bytes: bigint;
  readonly source: Source | undefined;
  readonly name?: string;
  readonly notes?: Notes;
  readonly content?: string | undefined;
  readonly speed?: string | undefined;
  /** Somebody made it by hand. */
  readonly foreign?: true;
}

export interface ToySnapshot {
  readonly id: string;
  readonly name: string;
  readonly volumeId: string;
  readonly bytes: bigint;
  readonly createdAt: Date;
  readonly content: string | undefined;
  readonly group?: string | undefined;
  /** Somebody took it by hand. */
  readonly foreign?: true;
}

/** One thing after another that a storage does; a process that dies stops between two of them. */
export type Step = <T>(work: () => T) => Promise<T>;

/** A storage in memory. It outlives the drivers that are opened on it. */
export class ToyStorage {
  readonly volumes = new Map<string, ToyVolume>();
  readonly snapshots = new Map<string, ToySnapshot>();
  /** Ids of volumes whose creation is not complete, whether there is a volume yet or not. */
  readonly begun = new Set<string>();
  /** A target server: the extents behind each target. */
  readonly targets = new Map<string, string>();
  free = 1n << 40n;
  /** How many volumes were made: each has its number in its notes, which tells it from a later one of its name. */
  made = 0;

  /** Whether a volume is the one that was read, and as finished: asked in the step that changes something, as storages with conditions do. */
  isStill({ id, notes, finished }: Pick<StoredVolume, "id" | "notes" | "finished">): boolean {
    return this.volumes.get(id)?.notes?.["made"] === notes["made"] && this.begun.has(id) !== finished;
  }

  /** What is left, in words. */
  remains(): readonly string[] {
    const all = { volume: this.volumes, snapshot: this.snapshots, begun: this.begun, target: this.targets };
    return Object.entries(all)
      .flatMap(([what, things]) => [...things.keys()].map(key => `${what} ${key}`))
      .sort();
  }
}

/** Every step gets through. */
export const alive: Step = async work => work();

/** A storage that may have no room for a step, and then does nothing of it. */
export function roomy(hasRoom: (about: string) => Promise<boolean>): Step {
  return async work => {
    if (await hasRoom("")) return work();
    throw new CsiError("resource-exhausted", "the toy is full");
  };
}

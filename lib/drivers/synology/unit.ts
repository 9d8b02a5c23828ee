import { setTimeout as pause } from "node:timers/promises";
import type { Call } from "../../core/call.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import type { Finding } from "../../health/finding.ts";
import type { Context, Source, VolumeSpec } from "../driver.ts";
import { type FailureContext, throwIfCancelled } from "../failure.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { Notes, StoredVolume, VolumeStore } from "../store.ts";
import type { Dsm } from "./client.ts";
import { explainDsm } from "./dsm-error.ts";

/** How long a call waits for DSM, in milliseconds; sidecars wait 15 s and then retry. */
const patienceMs = 8000;

/** Owners whose volumes belong to a connection: its instance, and itself for volumes made before it had an `instance_id`. */
export const ownersOf = ({ instanceId, connection }: ConnectionIdentity): readonly [string, ...string[]] =>
  instanceId === undefined ? [connection] : [instanceId, connection];

/** What DSM calls a unit, where a person deletes one, and the keys in the file that its name is made with. */
export const words = {
  lun: { noun: "LUN", editor: "SAN Manager", affixes: "namePrefix or nameSuffix" },
  folder: { noun: "shared folder", editor: "DSM", affixes: "namePrefix" },
} as const;

/** The volume of DSM, such as /volume1, on which a connection has its units. */
export class UnitPlace implements FailureContext {
  readonly explain = explainDsm;
  readonly connection: string;
  readonly dsm: Dsm;
  readonly location: string;
  readonly words: (typeof words)[keyof typeof words];

  constructor({ connection }: ConnectionIdentity, dsm: Dsm, location: string, kind: keyof typeof words) {
    this.connection = connection;
    this.dsm = dsm;
    this.location = location;
    this.words = words[kind];
  }

  error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }

  /** The refusal to delete what csimux did not make. */
  kept(what: string): CsiError {
    const text = `${what} does not belong to this connection and is kept; if it is yours, delete it in ${this.words.editor}`;
    return this.error("failed-precondition", text);
  }

  /**
   * Calls `look` at growing intervals until it returns a value. Throws "aborted" after a short time, because the caller waits: the retry
   * continues.
   */
  async awaited<T>(
    look: () => Promise<T | undefined>,
    doing: "creating" | "growing" | "removing",
    id: string,
    call: Call,
  ): Promise<T> {
    const end = performance.now() + patienceMs;
    for (let wait = 20; ; wait = Math.min(wait * 2, 1000)) {
      const found = await look();
      if (found !== undefined) return found;
      if (performance.now() + wait > end)
        throw this.error("aborted", `DSM is still ${doing} the ${this.words.noun} of volume "${id}"; retrying`);
      await pause(wait);
      throwIfCancelled(this, call);
    }
  }
}

/** A LUN or a shared folder that is a volume or is becoming one. `A`: what is read of the system at once. */
export interface DsmUnit<A> extends StoredVolume {
  /** A digest of its source; undefined if it was made without one. */
  readonly tag: string | undefined;
  /** What was read with it, if that was right now. */
  readonly beside?: A;
}

/** A snapshot of a unit. */
export interface TakenSnapshot<U> {
  readonly unit: U;
  /** DSM's name of it. */
  readonly name: string;
  readonly id: string;
  /** What tells its name in CSI; undefined for one that others took, such as DSM's schedule. */
  readonly key: string | undefined;
  /** Who took it. */
  readonly by: string;
  /** The size of the unit at that time. */
  readonly bytes: bigint;
  readonly createdAt: Date;
  readonly ready: boolean;
}

/** The source of a new unit, and its size; the name if it is a snapshot. */
export type Origin<U> = Pick<TakenSnapshot<U>, "unit" | "bytes"> & Partial<Pick<TakenSnapshot<U>, "name">>;

/** The parts of a snapshot's id: the unit, as it is named there, and DSM's name of the snapshot. */
export type UnitSnapshotId = readonly [of: string, name: string];

/** What differs between snapshots of LUNs and of shared folders. */
export interface SnapshotKind<U, A> {
  /** Who takes the snapshots of this connection. */
  readonly taker: string;
  /** The key of a name. */
  keyOf(name: string): string;
  /** Undefined for a text that cannot be the id of a snapshot. */
  parse(id: string): UnitSnapshotId | undefined;
  /** The finished unit that an id names. */
  unitOf(id: UnitSnapshotId, all: A): U | undefined;
  /** The snapshots of a unit. `again`: also if they were read with it. */
  of(unit: U, call: Pick<Call, "signal">, again?: boolean): Promise<readonly TakenSnapshot<U>[]>;
  /** Another unit among `units` that has a snapshot of this key. */
  otherWith(key: string, unit: U, units: readonly U[], call: Call): Promise<U | undefined>;
  take(unit: U, name: string, parameters: Context, call: Call): Promise<void>;
  delete(taken: TakenSnapshot<U>, call: Call): Promise<void>;
  /** The name of what has this snapshot although this connection has no such volume. */
  keeper(id: UnitSnapshotId, all: A, call: Call): Promise<string | undefined>;
}

/** What differs between LUNs and shared folders. */
export interface Kind<U extends DsmUnit<A>, A> {
  readonly place: UnitPlace;
  readonly names: { idOf(name: string): string };
  /** DSM gives sizes in multiples of so many bytes. */
  readonly sizeUnit: bigint;
  readonly shrinks: boolean;
  /** DSM's number for "a unit of this name exists". */
  readonly existsCode: number;
  /** Whether this is the answer that a unit does not exist. */
  isGone(error: unknown): boolean;
  /** The units of the system. `withSnapshots`: if DSM has them in the same answer. */
  read(call: Pick<Call, "signal">, withSnapshots?: boolean): Promise<A>;
  /** The volume of an id; undefined for a foreign one and for one that is being removed. */
  find(id: string, all: A): U | undefined;
  finished(all: A): readonly U[];
  /** Makes room for a new unit. Throws "already-exists" for a foreign one in its place. */
  prepare(id: string, source: Source | undefined, all: A, call: Call): Promise<void>;
  make(id: string, spec: VolumeSpec, bytes: bigint, origin: Origin<U> | undefined, call: Call): Promise<void>;
  /** The new unit, if DSM has completed it. */
  made(id: string, source: Source | undefined, call: Call): Promise<U | undefined>;
  finish(unit: U, notes: Notes, call: Call): Promise<U>;
  /** Sets the size. */
  resize(unit: U, bytes: bigint, call: Call): Promise<void>;
  /** Whether there is something to remove, in whatever state. Throws "failed-precondition" for what is foreign. */
  isThere(id: string, all: A): boolean;
  /** The name of the unit of this volume with other affixes, which an earlier file has given it. */
  otherwise(id: string, all: A): string | undefined;
  /** Removes what is there, but nothing that another controller makes or finishes meanwhile. */
  remove(id: string, all: A, call: Call): Promise<void>;
  findings(unit: U): readonly Finding[];
  idOfObject(object: string): string;
  /** Absent: volumes need no marks. */
  readonly adoption?: Pick<VolumeStore<U>, "unmarked" | "mark">;
}

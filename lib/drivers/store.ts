import type { Access, Protocol } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import type { Finding, VolumeFindings } from "../health/finding.ts";
import type { CopySource, CopySpec, CopyTarget, SourceSnapshot, StillHeld } from "./copying.ts";
import type {
  Context,
  GroupSnapshotAbility,
  Page,
  PageRequest,
  SnapshotAbility,
  SnapshotMetadataAbility,
  Source,
  VolumeSpec,
} from "./driver.ts";
import type { ErrorMapping } from "./failure.ts";
import type { KeptAbility } from "./kept.ts";
import type { Tenure } from "./tenure.ts";
import type { ForeignSource } from "./volume.ts";

/** What a share records with a volume between its steps, on stable storage: text by key, such as the ids of a target. */
export type Notes = Readonly<Record<string, string>>;

/** A volume, or what will become one. */
export interface StoredVolume {
  readonly id: string;
  /** The name that the caller chose; undefined if the storage system does not record it. */
  readonly name: string | undefined;
  /** Size in bytes; 0 if unknown. */
  readonly bytes: bigint;
  /** An expansion to this size has ended before its last step. */
  readonly partlyResized?: boolean;
  readonly source: Source | undefined;
  /** The source on another connection, if its content came from there. */
  readonly copyOf?: ForeignSource | undefined;
  /** Whose it is, if that is recorded. */
  readonly tenure?: Tenure | undefined;
  readonly notes: Notes;
  /** False until the creation, including the share, is proven to be complete. */
  readonly finished: boolean;
}

/** The findings of a check of a whole storage system. */
export interface HealthInspection<A extends StoredVolume> {
  /** About the storage system, and so about all its volumes. */
  readonly storage: readonly Finding[];
  readonly volumes: VolumeFindings;
  /** The finished assets, as in `list`. */
  readonly assets: readonly A[];
}

/** The targets of copies in a store, as CopyTarget has them; the driver finishes what `complete` returns. */
export type CopyTargetStore<A extends StoredVolume> = Omit<CopyTarget, "idOf" | "existing" | "finish"> & {
  /**
   * Proves that the target holds `snapshot`, and gives it the size, properties, origin and name of the volume, whose share is still missing.
   * Returns a volume that exists with this id unchanged; the driver compares and refuses.
   */
  complete(id: string, spec: CopySpec, snapshot: SourceSnapshot, stillHeld: StillHeld, call: Call): Promise<A>;
};

/** What the volumes of a store record about whose they are. */
export interface TenureStore<A extends StoredVolume> {
  /** What distinguishes an asset from every other one, also from a copy of it; empty if unknown. */
  identityOf(asset: A): string;
  /**
   * Replaces the tenure that `asset` was read with, in one step for all processes. Throws "aborted", with nothing changed, if that or the asset
   * is another one by now. `proved`: throws "failed-precondition" where the storage has no lock for this.
   */
  replace(asset: A, tenure: Tenure, proved: boolean, call: Call): Promise<void>;
}

/**
 * Where the data is. Every method may be repeated, and interrupted after any step. For one id the driver calls one changing method at a
 * time, but other processes may work on the same storage system. Only the store parses the output of the storage system's tools. What a
 * method has returned survives a power loss of the machine that stores it. Methods throw CsiError, or what `explain` knows.
 */
export interface VolumeStore<A extends StoredVolume> {
  /** The id of a volume with this name. Pure. */
  idOf(name: string): string;
  /**
   * Creates what `spec` describes, or returns what already exists with its id, finished or not. An unequal one is returned unchanged: the
   * driver compares and refuses. A request may name up to 2^63 - 1 bytes: throws "out-of-range" for a size that the storage system cannot
   * have (`wholeUnits`, `jsonSize`), and "resource-exhausted" if there is no room. Nothing is left of a creation with a final failure in any
   * step, reading the result included: `afterFailure` of failure.ts undoes it, or makes the failure one that is not final.
   */
  create(spec: VolumeSpec, call: Call): Promise<A>;
  /** What exists with this id, finished or not. */
  find(id: string, call: Call): Promise<A | undefined>;
  /** Records notes with an asset, besides those it has; durable once it resolves. Undefined: shares on this store record none. */
  note?(asset: A, notes: Notes, call: Call): Promise<A>;
  /**
   * Records the last notes and marks the creation as complete, in one step. A final failure, reading the result included, leaves nothing
   * either: StoreDriver then calls `remove`, except for an asset that is marked by then, and otherwise reports a failure that is not final.
   */
  finish(asset: A, notes: Notes, call: Call): Promise<A>;
  /**
   * Removes what exists with this id, and the rest of interrupted creations. Succeeds if there is nothing. Throws "failed-precondition",
   * with nothing changed, if it cannot be removed. `before` gets the present asset right before the first change; if it rejects, nothing
   * is removed. `withShare`: the storage removes the share together with the asset.
   */
  remove(id: string, before: (asset: A, withShare?: boolean) => Promise<void>, call: Call): Promise<void>;
  /** The id of an object by its own name, such as that of a dataset; undefined if it is not below the connection's root. Pure. */
  idOfObject?(object: string): string | undefined;
  /**
   * An object without marks, as the asset that it would be; undefined if it does not exist. Changes nothing. Throws "failed-precondition"
   * for one with the marks of another connection, or that cannot be a volume. Absent: volumes need no marks.
   */
  unmarked?(id: string, call: Call): Promise<A | undefined>;
  /** Sets the marks of a finished volume on such an object, in one step, and changes nothing else. */
  mark?(asset: A, notes: Notes, call: Call): Promise<void>;
  /** The meaning of the storage system's messages. */
  explain(error: unknown): ErrorMapping | undefined;
  /** Like FailureContext.hidden. */
  hidden?(): string | undefined;
  /** Whether two sources are the same, in whatever spelling. Undefined: if their texts are equal. */
  sameSource?(a: Source, b: Source): boolean;
  /**
   * Grows an asset to `bytes`, from its present size to 2^63 - 1. Throws "out-of-range" if the storage system cannot have that size, or only
   * one above `limit`, and "resource-exhausted" if there is no room; the asset then keeps its size.
   */
  resize?(asset: A, bytes: bigint, limit: bigint | undefined, call: Call): Promise<A>;
  /** Snapshots; they throw like this store. */
  readonly snapshots?: SnapshotAbility | undefined;
  /** The kinds of source that `create` accepts. */
  readonly clonesFrom?: readonly Source["kind"][];
  /** Snapshots of several volumes at one moment; they throw like this store. */
  readonly groupSnapshots?: GroupSnapshotAbility | undefined;
  /** Lists of blocks; they throw like this store. */
  readonly snapshotMetadata?: SnapshotMetadataAbility | undefined;
  /** Absent: nothing is recorded, so that no class keeps its volumes. */
  readonly tenures?: TenureStore<A> | undefined;
  /** Content for other connections; throws like this store. */
  readonly copySource?: CopySource | undefined;
  /** Content from other connections; throws like this store. */
  readonly copyTarget?: CopyTargetStore<A> | undefined;
  /** What is kept; throws like this store. */
  readonly kept?: KeptAbility | undefined;
  /** Like ModifyAbility.modify. */
  modify?(asset: A, properties: Context, call: Call): Promise<void>;
  /** Bytes that a new volume may take. */
  available?(parameters: Context, call: Call): Promise<bigint>;
  /** Finished assets, in a stable order. */
  list?(page: PageRequest, call: Call): Promise<Page<A>>;
  /** Like HealthAbility.look. */
  look?(call: Call): Promise<HealthInspection<A>>;
  /** Like ShareProtocol.restore, if the storage system exports its assets by itself. */
  readonly restore?: ((asset: A, call: Call) => Promise<void>) | undefined;
  /** Throws what is wrong with the storage system. Changes nothing. */
  check?(call: Call): Promise<void>;
  close?(): Promise<void>;
}

/** How nodes reach assets by one protocol. Every method may be repeated, and interrupted after any step. */
export interface ShareProtocol<A extends StoredVolume> {
  readonly protocol: Protocol;
  readonly access: Access;
  /** Whether a node has work to do after a resize: rescanning a disk, growing a file system. */
  readonly growsOnNode: boolean;
  /** Makes the asset reachable; returns the notes that finish it. `keep` records notes that a retry needs. Absent: nothing to do. */
  publish?(asset: A, spec: VolumeSpec, keep: (notes: Notes) => Promise<A>, call: Call): Promise<Notes>;
  /** The volume context with which a node finds the asset, besides the common keys. From its notes, without I/O. */
  context(asset: A): Context;
  /**
   * The servers in the connection file, under the keys of `context`. They override the notes of an asset: a storage system must not send
   * nodes to servers that the file does not name. Absent if notes contain no server.
   */
  readonly reach?: Context;
  /**
   * The notes about the export or target of an unmarked asset, which a person has made. Changes nothing. Throws "failed-precondition" if
   * there is none, or one that is not the asset's alone. Absent: it cannot be found.
   */
  existing?(asset: A, call: Call): Promise<Notes>;
  /**
   * Undoes `publish`. Succeeds if the asset is not published, even if a foreign object has its name. Throws "failed-precondition" only if
   * nothing has changed, for example while a node still uses the asset: after any other failure, a finished asset is published again.
   * Absent if there is nothing to undo.
   */
  withdraw?(asset: A, call: Call): Promise<void>;
  /** Throws "failed-precondition" while a node uses the asset. Changes nothing. Absent: the storage does not tell. */
  readonly unused?: ((asset: A, call: Call) => Promise<void>) | undefined;
  /** Called after the size of the asset has changed. */
  resized?(asset: A, call: Call): Promise<void>;
  explain?(error: unknown): ErrorMapping | undefined;
  /** Restores the missing export or target of a finished asset. */
  restore?(asset: A, call: Call): Promise<void>;
  /** The findings about the exports or targets of all finished assets, in few requests. Throws like HealthAbility.look. */
  look?(assets: readonly A[], call: Call): Promise<VolumeFindings>;
  /** Throws what is wrong with the sharing service. Changes nothing. */
  check?(call: Call): Promise<void>;
}

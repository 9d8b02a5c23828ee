import type { Access, Protocol } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import type { Finding, VolumeFindings } from "../health/finding.ts";
import type {
  Context,
  GroupSnapshotAbility,
  Page,
  PageRequest,
  SnapshotAbility,
  Source,
  VolumeSpec,
} from "./driver.ts";
import type { ErrorMapping } from "./failure.ts";

/** What a share keeps with a volume between its steps: text by key, on stable storage, such as the ids of a target. */
export type Notes = Readonly<Record<string, string>>;

/** A piece of storage that is, or is about to become, a volume. */
export interface StoredVolume {
  readonly id: string;
  /** The name that the caller chose; undefined when the storage does not tell. */
  readonly name: string | undefined;
  /** Size in bytes; 0 when nobody has told yet. */
  readonly bytes: bigint;
  readonly source: Source | undefined;
  readonly notes: Notes;
  /** False until the whole creation, the share included, is proved to be complete. */
  readonly finished: boolean;
}

/** What a look at a whole storage has found. */
export interface HealthInspection<A extends StoredVolume> {
  /** About the storage: each is true of all its volumes. */
  readonly storage: readonly Finding[];
  readonly volumes: VolumeFindings;
  /** The finished assets, as `list` has them. */
  readonly assets: readonly A[];
}

/**
 * Where the bytes live. Every method may be repeated, and interrupted after any step; for one id the driver calls one changing
 * method at a time, but other processes may work on the same storage; what a tool of the storage prints is
 * understood here and nowhere else. What a method has answered outlives a loss of power of the machine that keeps it. Methods throw
 * CsiError, or whatever `explain` knows.
 */
export interface VolumeStore<A extends StoredVolume> {
  /** The id that a volume of this name gets. Pure. */
  idOf(name: string): string;
  /**
   * Makes what `spec` asks for, or returns what stands under its id already, finished or not. One that stands already and is
   * not equal is returned unchanged: the driver compares and refuses. Nothing is left of a creation that fails for good.
   */
  create(spec: VolumeSpec, call: Call): Promise<A>;
  /** What stands under the id, finished or not. */
  find(id: string, call: Call): Promise<A | undefined>;
  /** Keeps notes with an asset, besides those it has; durable when it resolves. Undefined: shares on this store keep none. */
  note?(asset: A, notes: Notes, call: Call): Promise<A>;
  /** Keeps the last notes and marks the creation as complete, in one step. */
  finish(asset: A, notes: Notes, call: Call): Promise<A>;
  /**
   * Removes what stands under the id, with what interrupted creations of it left. Success when there is nothing. Throws
   * "failed-precondition" when it cannot be removed, with nothing changed. `before` gets what is about to be removed, as it is
   * now, right before the first change; when it rejects, nothing is removed.
   */
  remove(id: string, before: (asset: A) => Promise<void>, call: Call): Promise<void>;
  /** The words of the storage, in ours. */
  explain(error: unknown): ErrorMapping | undefined;
  /** As FailureContext.hidden. */
  hidden?(): string | undefined;
  /** Whether two sources name the same thing, in whatever spelling. Undefined: equal text is the same. */
  sameSource?(a: Source, b: Source): boolean;
  /** Grows an asset to `bytes`, never less than it has. Throws "out-of-range" where the storage has only sizes above `limit`. */
  resize?(asset: A, bytes: bigint, limit: bigint | undefined, call: Call): Promise<A>;
  /** Snapshots, which throw as this store does. */
  readonly snapshots?: SnapshotAbility | undefined;
  /** The kinds of source that `create` takes. */
  readonly clonesFrom?: readonly Source["kind"][];
  /** Snapshots of several volumes at one moment, which throw as this store does. */
  readonly groupSnapshots?: GroupSnapshotAbility | undefined;
  /** Changes properties of an asset in use, all of them or none. Throws "invalid-argument" for what may not be changed. */
  modify?(asset: A, properties: Context, call: Call): Promise<void>;
  /** Bytes that a new volume may take. */
  available?(parameters: Context, call: Call): Promise<bigint>;
  /** Finished assets, in a stable order. */
  list?(page: PageRequest, call: Call): Promise<Page<A>>;
  /** As HealthAbility.look. */
  look?(call: Call): Promise<HealthInspection<A>>;
  /** As ShareProtocol.restore, where the storage shares its assets by itself. */
  readonly restore?: ((asset: A, call: Call) => Promise<void>) | undefined;
  /** Throws what is wrong with the storage. Changes nothing. */
  check?(call: Call): Promise<void>;
  close?(): Promise<void>;
}

/** How nodes reach assets by one protocol. Every method may be repeated, and interrupted after any step. */
export interface ShareProtocol<A extends StoredVolume> {
  readonly protocol: Protocol;
  readonly access: Access;
  /** After a resize a node has work to do: another size of disk, a file system to grow. */
  readonly growsOnNode: boolean;
  /**
   * Makes the asset reachable and returns the notes that finish it. `keep` stores notes before a next step that an
   * interruption must find again. Undefined when nothing has to be done.
   */
  publish?(asset: A, spec: VolumeSpec, keep: (notes: Notes) => Promise<A>, call: Call): Promise<Notes>;
  /** What leads a node to the asset, beside the keys that every driver has. From its notes; no I/O. */
  context(asset: A): Context;
  /**
   * The servers of every asset, as the file names them, under the keys of `context`. They win over what is noted with an asset: a storage
   * must not send nodes to servers that the file does not name. Absent where notes hold no server.
   */
  readonly reach?: Context;
  /** Undoes `publish`. Success when the asset is not reachable. Undefined when there is nothing to undo. */
  withdraw?(asset: A, call: Call): Promise<void>;
  /** The asset has another size now. */
  resized?(asset: A, call: Call): Promise<void>;
  explain?(error: unknown): ErrorMapping | undefined;
  /** Makes the way to a finished asset anew where its host has lost it. */
  restore?(asset: A, call: Call): Promise<void>;
  /** What is wrong with the way to these assets, which are all that are finished; in few requests. Throws as HealthAbility.look. */
  look?(assets: readonly A[], call: Call): Promise<VolumeFindings>;
  /** Throws what is wrong with the service that shares. Changes nothing. */
  check?(call: Call): Promise<void>;
}

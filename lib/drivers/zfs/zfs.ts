import type { Protocol } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";

/** Kinds of datasets and snapshots, as zfs(8) names them; "volume" is a zvol. */
export type DatasetType = "filesystem" | "volume" | "snapshot";

/** A property as ZFS has it: sizes in bytes, times in seconds. `own`: neither inherited nor a default (source local or received). */
export interface Property {
  readonly value: string;
  readonly own: boolean;
  /** It came with a stream (zfs-receive(8)). Absent also where that is unknown. */
  readonly received?: true;
}

/** A dataset or snapshot with the properties that were asked for; those without a value are absent. */
export interface Entry {
  readonly name: string;
  readonly properties: ReadonlyMap<string, Property>;
}

/** Entries by name; what does not exist is absent. */
export type Entries = ReadonlyMap<string, Entry>;

/** What to read, after the change if there is one: names, and properties of each. */
export interface PropertyQuery {
  readonly names: readonly string[];
  readonly properties: readonly string[];
}

/** New values by property, native and user properties alike; undefined: inherit the value again. */
export type Values = Readonly<Record<string, string | undefined>>;

/** Mode, owner and access control lists of the top folder of a file system. Absent parts stay as they are. */
export interface Permissions {
  readonly mode: string | undefined;
  readonly user: string | undefined;
  readonly group: string | undefined;
  /** The arguments of each call of the program that sets access control lists. */
  readonly acls: readonly (readonly string[])[];
  readonly aclsProgram: string;
}

/** A dataset to make, together with its properties. */
export interface NewDataset {
  readonly name: string;
  /** Size of a zvol in bytes; undefined for a file system. */
  readonly volsize: bigint | undefined;
  readonly values: Readonly<Record<string, string>>;
  /** Applied to a new file system. */
  readonly permissions: Permissions | undefined;
  /** Values that finish a new file system, by its mount point. */
  readonly finished?: ((mountpoint: string) => Readonly<Record<string, string>>) | undefined;
}

/**
 * Whether this call made something, and what exists now. If it made nothing, something of this name existed. `finished`: it was read, and
 * then the values were set that finish it.
 */
export interface CreationResult {
  readonly made: boolean;
  readonly finished?: boolean;
  readonly entries: Entries;
}

/** A snapshot to clone. `temporary`: taken for this clone, in place of one that an earlier attempt has left, and destroyed with it. */
export interface CloneOrigin {
  readonly snapshot: string;
  readonly temporary: boolean;
}

/** A full copy of a snapshot into a dataset that does not exist, or that an interrupted copy has left. */
export interface Copy {
  readonly from: string;
  readonly to: string;
  /** Set on the copy from its beginning. */
  readonly values: Readonly<Record<string, string>>;
}

/** What was inspected before a change. Throws "changed" where another guid has the name, an unfinished volume is finished, or one has grown. */
export interface Inspected {
  readonly guid?: string | undefined;
  readonly unfinished?: boolean;
  /** A value that a property still has to have on it; "proved": also where the host has no lock for that, the change is refused. */
  readonly still?: { readonly property: string; readonly value: string; readonly proved: boolean };
  /** The size that is set, in bytes, by the property that has it; a volume that is larger by now never shrinks. */
  readonly grows?: { readonly property: string; readonly bytes: bigint };
  /** The dataset that was inspected, if it is not the one that is changed. */
  readonly of?: string;
  /** Nothing was asked or changed since then: a storage that has no condition for a change does not look again. */
  readonly fresh?: boolean;
}

/** How to destroy something. */
export interface DestroyOptions extends Inspected {
  /** Destroys exactly these snapshots with their dataset, by the names behind "@"; a dataset with another one stays. */
  readonly snapshots?: readonly string[];
  /** A snapshot with clones or holds goes with the last of them. */
  readonly deferred?: boolean;
  /** A mounted file system that clients may use: unmounted first, and mounted and shared again if it stays. */
  readonly served?: ServedFilesystem;
}

/** What must be shown of a snapshot: values of its own, and values that it inherits of its dataset, which may have none; undefined: it must not. */
export interface SureValues {
  readonly own: Readonly<Record<string, string>>;
  readonly inherited: Readonly<Record<string, string | undefined>>;
}

/** A mounted file system, and the protocol by which its host may serve it. */
export interface ServedFilesystem {
  readonly protocol: Protocol;
  readonly mountpoint: string;
}

/** How to rename a dataset that may be in use. */
export interface RenameOptions {
  readonly guid: string;
  /** Values that it gets before; if it cannot be renamed, they are inherited again. */
  readonly before: Readonly<Record<string, string>>;
  /** Values that it gets under its new name. */
  readonly after: Readonly<Record<string, string>>;
  readonly served: ServedFilesystem | undefined;
}

/** The name of a snapshot, and where to look for it. */
export interface SnapshotName {
  readonly name: string;
  /** The dataset whose children may have such a snapshot. */
  readonly parent: string;
  /** Two levels below it a copy may have the name. With it, snapshots that others took in the last quarter of an hour may be missing. */
  readonly copies: string | undefined;
}

/** What has the name of a snapshot. */
export interface SnapshotsOfName {
  /** Datasets with a snapshot of this name. */
  readonly holders: readonly string[];
  /** Datasets that are copies of this name. */
  readonly copies: readonly string[];
  /** The answer to the query. */
  readonly entries: Entries;
}

/** Why ZFS refused something. */
export type ZfsFailure =
  | "absent"
  | "parent-absent"
  | "pool-absent"
  | "exists"
  | "busy"
  | "used"
  | "unshared"
  | "dependents"
  | "held"
  | "locked"
  | "full"
  | "denied"
  | "suspended"
  | "size"
  | "invalid"
  /** Another call has removed something of this one. */
  | "changed"
  /** A copy was interrupted, and what it has received is kept. */
  | "unfinished"
  | "unlisted"
  /** The answer was cut, or does not fit the question, so that it proves nothing. */
  | "incomplete"
  | "other";

/** A refusal of ZFS; the message is ZFS's own, one line. */
export class ZfsError extends Error {
  override readonly name = "ZfsError";
  readonly failure: ZfsFailure;
  constructor(failure: ZfsFailure, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.failure = failure;
  }
}

/** A parent of volumes that does not exist: it was renamed, or the names of the file are wrong, and then its volumes exist elsewhere. */
export const parentAbsent = (parent: string): ZfsError =>
  new ZfsError(
    "pool-absent",
    `the dataset ${parent}, below which the connection has its volumes, does not exist; if it was destroyed with all of them, create it again`,
  );

/** The refusal of a dataset that has the name of an unfinished copy. */
export function notOurCopy(name: string): ZfsError {
  const head = `${name} exists, and neither its properties nor its snapshots prove that it is an unfinished copy of csimux`;
  return new ZfsError("used", `${head}: check its content, and destroy or rename it if it is not needed`);
}

/** How many levels of names a listing has below its dataset. */
export type Depth = 1 | 2 | 3 | typeof everyLevel;

/** More levels than a pool has (OpenZFS, module-parameters zfs_max_dataset_nesting). */
export const everyLevel = 50;

/** The error for a storage that reported success, such as "took tank/a@s", of something that does not exist afterwards. */
export const untrue = (done: string): ZfsError =>
  new ZfsError("incomplete", `the storage reported that it has ${done}, or that this exists, but it does not exist`);

/**
 * The pools of one host: the few verbs that volumes need, each in one round trip. The caller checks names and values. Every method
 * throws ZfsError, or CommandError and its like when the host was not reached or the outcome is unknown.
 */
export interface Zfs {
  /** Whether snapshots of several datasets can be taken at one moment. */
  readonly snapshotsTogether: boolean;
  /** Properties of ZFS that cannot be set this way. */
  readonly fixed: ReadonlySet<string>;
  /** Throws "pool-absent" when a pool among the names does not exist, because then its contents are unknown. */
  read(query: PropertyQuery, signal: AbortSignal): Promise<Entries>;
  /** Makes a dataset unless it exists; with `parents` also those above it. Throws "absent" when its parent does not exist. */
  create(dataset: NewDataset, parents: boolean, query: PropertyQuery, signal: AbortSignal): Promise<CreationResult>;
  /** Like `create`, from a snapshot; throws "absent" when that does not exist, or what a temporary one would be taken of. */
  clone(dataset: NewDataset, origin: CloneOrigin, query: PropertyQuery, signal: AbortSignal): Promise<CreationResult>;
  /** Sets values on a dataset or snapshot; where ZFS refuses one, others may be set. A size is reserved before it becomes the quota. `of`: what was inspected. */
  set(name: string, values: Values, signal: AbortSignal, of?: Inspected): Promise<void>;
  /** Throws "used" while clients use the file system, or "busy". Absent: unknown. */
  unused?(name: string, served: ServedFilesystem, signal: AbortSignal): Promise<void>;
  /** Applies permissions to a mounted file system. */
  permit(name: string, permissions: Permissions, signal: AbortSignal): Promise<void>;
  /** Takes all of these snapshots at one moment, or none. Throws "exists" when one exists. */
  snapshot(
    names: readonly [string, ...string[]],
    values: Readonly<Record<string, string>>,
    query: PropertyQuery,
    signal: AbortSignal,
  ): Promise<CreationResult>;
  /**
   * Frees the name of a snapshot that was taken for a clone or copy: destroys the snapshot, or renames it if clones or holds still need it;
   * then it goes with the last of them. Succeeds if there is none.
   */
  freeName(snapshot: string, signal: AbortSignal): Promise<void>;
  /** Finds what has the name of a snapshot, by names alone. Throws like `read`. */
  snapshotsNamed(wanted: SnapshotName, query: PropertyQuery, signal: AbortSignal): Promise<SnapshotsOfName>;
  /** A dataset and what is up to `depth` levels below it, of these types. Empty when it does not exist. Throws like `read`. */
  below(
    parent: string,
    types: readonly DatasetType[],
    properties: readonly string[],
    depth: Depth,
    signal: AbortSignal,
  ): Promise<readonly Entry[]>;
  /** A dataset, all below it, and the query's names; its ancestors if absent. Throws like `read`. `onlyDestroyed`: with nothing below, nothing but `destroy` follows. */
  family(dataset: string, query: PropertyQuery, signal: AbortSignal, onlyDestroyed?: boolean): Promise<Entries>;
  /** Of datasets with one parent those that exist, each with its children and snapshots, in one listing. Throws like `read`. */
  families(names: readonly string[], properties: readonly string[], signal: AbortSignal): Promise<Entries>;
  /** Destroys one thing, or nothing. A file system in use stays as it is: "used" when it is known by whom, "busy" otherwise. */
  destroy(name: string, how: DestroyOptions, signal: AbortSignal): Promise<void>;
  /**
   * Reads, and in the same step destroys the snapshot, deferred, if it shows these values; then undefined. Otherwise nothing is changed, and it
   * answers like `read`. Absent: a snapshot is read before.
   */
  destroySure?(
    snapshot: string,
    sure: SureValues,
    query: PropertyQuery,
    signal: AbortSignal,
  ): Promise<Entries | undefined>;
  /** Whether it deletes the shares of this protocol together with a dataset. Absent: never. */
  takesShares?(protocol: Protocol, signal: AbortSignal): Promise<boolean>;
  /** Throws "invalid" for the beginning of an empty volume that is of no use and must be made again. Absent: any can be completed. */
  proveUsable?(begun: Entry, wanted: NewDataset, signal: AbortSignal): Promise<void>;
  /** Why a dataset must keep its name, in words that follow "it"; undefined where it may be renamed. Absent: any may be. */
  whyNotRenamed?(name: string, signal: AbortSignal): Promise<string | undefined>;
  /** Renames a dataset, with its snapshots and children; throws "exists" if the new name is taken. With `how`, throws like `destroy`. */
  rename(from: string, to: string, signal: AbortSignal, how?: RenameOptions | Inspected): Promise<void>;
  /** Throws where volumes cannot be made at all, before a creation changes anything. Absent where that needs no question. */
  ready?(signal: AbortSignal): Promise<void>;
  /** Finishes an interrupted rename of a copy; returns whether there was anything to do. Absent where a rename is one step. */
  finishRename?(from: string, to: string, signal: AbortSignal): Promise<boolean>;
  /** Mounts a file system; success when it is mounted. */
  mount(name: string, signal: AbortSignal): Promise<void>;
  /** The states of pools as zpool(8) writes them, such as "ONLINE", by name; unknown ones are absent. */
  pools(names: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>>;
  /** Warns about what an administrator should correct on the host. Absent: nothing is known. */
  tellConcerns?(call: Call): Promise<void>;
  /** The folders that the host's NFS server exports; undefined or absent where that is unknown. */
  exported?(signal: AbortSignal): Promise<ReadonlySet<string> | undefined>;
  /** Shares a file system according to its properties; success when it is shared. */
  share?(name: string, signal: AbortSignal): Promise<void>;
  /**
   * Makes a copy, or continues an interrupted one, to its end; one of an earlier snapshot is replaced. Throws "used" for a dataset that nothing
   * proves to be such a copy. While someone else copies, waits for their end or throws "busy". Answers the guid of the copy, empty if it is not shown.
   */
  copy(copy: Copy, signal: AbortSignal): Promise<string>;
}

import type { Protocol } from "../../core/access.ts";

/** What stands in a pool. */
export type DatasetType = "filesystem" | "volume" | "snapshot";

/** A property as ZFS has it: sizes in bytes, times in seconds. `own`: not inherited and no default (source local or received). */
export interface Property {
  readonly value: string;
  readonly own: boolean;
  /** It came with a stream (zfs-receive(8)). Absent also where nobody can tell. */
  readonly received?: true;
}

/** A dataset or snapshot with the properties that were asked for; one without a value is absent. */
export interface Entry {
  readonly name: string;
  readonly properties: ReadonlyMap<string, Property>;
}

/** Entries by name; what does not exist is absent. */
export type Entries = ReadonlyMap<string, Entry>;

/** What is to be read along, after the change: names, and properties of each. */
export interface PropertyQuery {
  readonly names: readonly string[];
  readonly properties: readonly string[];
}

/** New values by property, native and user properties alike; undefined: inherited again. */
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

/** A dataset to be made, all at once with its properties. */
export interface NewDataset {
  readonly name: string;
  /** Size of a volume in bytes; undefined for a file system. */
  readonly volsize: bigint | undefined;
  readonly values: Readonly<Record<string, string>>;
  /** Applied to a file system right after it was made. */
  readonly permissions: Permissions | undefined;
}

/** Whether this call made it, and what stands there now. When it did not, something was there before. */
export interface Creation {
  readonly made: boolean;
  readonly entries: Entries;
}

/** A snapshot to clone. `temporary`: made for this clone, if it is not there, and gone with it. */
export interface CloneOrigin {
  readonly snapshot: string;
  readonly temporary: boolean;
}

/** A full copy of a snapshot into a dataset that does not exist yet, or that an interrupted copy has begun. */
export interface Copy {
  readonly from: string;
  readonly to: string;
  /** Set on the copy from its beginning. */
  readonly values: Readonly<Record<string, string>>;
}

/** How something is destroyed. */
export interface DestroyOptions {
  /** With exactly these snapshots of its, by their names behind the "@"; it stays when it has another one by then. */
  readonly snapshots?: readonly string[];
  /** A snapshot with clones or holds goes later, with the last of them. */
  readonly deferred?: boolean;
  /** A mounted file system that clients of a server may use: unmounted first, and mounted and shared again when it stays. */
  readonly served?: ServedFilesystem;
}

/** A mounted file system, and the protocol by which its host may serve it. */
export interface ServedFilesystem {
  readonly protocol: Protocol;
  readonly mountpoint: string;
}

/** The name of a snapshot, and where others of this name may be. */
export interface SnapshotName {
  readonly name: string;
  /** The dataset whose children may have such a snapshot. */
  readonly parent: string;
  /** The dataset two levels below which there may be a copy of this name; undefined: nobody asks for copies. */
  readonly copies: string | undefined;
}

/** What has the name of a snapshot. */
export interface SnapshotsOfName {
  /** Datasets with a snapshot of this name. */
  readonly holders: readonly string[];
  /** Datasets that are copies of this name. */
  readonly copies: readonly string[];
  /** What was read along. */
  readonly entries: Entries;
}

/** Why ZFS did not do something. */
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
  | "full"
  | "denied"
  | "suspended"
  | "size"
  | "invalid"
  /** The answer was cut, or does not fit what was asked, so that nothing can be concluded from it. */
  | "incomplete"
  | "other";

/** Something that ZFS refused; the message is ZFS's own, one line. */
export class ZfsError extends Error {
  override readonly name = "ZfsError";
  readonly failure: ZfsFailure;
  constructor(failure: ZfsFailure, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.failure = failure;
  }
}

/** The error for a storage that reported success, such as "took tank/a@s", of something that is not there afterwards. */
export const untrue = (done: string): ZfsError =>
  new ZfsError("incomplete", `the storage reported that it has ${done}, or that this exists, but it does not exist`);

/**
 * The pools of one host: the few verbs that volumes need, each of one round trip. Names and values are checked by the caller.
 * Every method throws ZfsError, or CommandError and its like when the host was not reached or nobody knows what it did.
 */
export interface Zfs {
  /** Whether snapshots of several datasets can be taken at one moment. */
  readonly together: boolean;
  /** Properties of ZFS that cannot be set this way. */
  readonly fixed: ReadonlySet<string>;
  /** Throws "pool-absent" when a pool among the names is not there, for then nothing is known of what is in it. */
  read(look: PropertyQuery, signal: AbortSignal): Promise<Entries>;
  /** Makes a dataset unless something stands there. `parents`: those above it too. Throws "absent" when its parent is not there. */
  create(dataset: NewDataset, parents: boolean, look: PropertyQuery, signal: AbortSignal): Promise<Creation>;
  /** As `create`, from a snapshot; throws "absent" when that is not there. */
  clone(dataset: NewDataset, origin: CloneOrigin, look: PropertyQuery, signal: AbortSignal): Promise<Creation>;
  /** Sets values on a dataset or snapshot. All that are not undefined go in one step. */
  set(name: string, values: Values, signal: AbortSignal): Promise<void>;
  /** Applies permissions to a mounted file system. */
  permit(name: string, permissions: Permissions, signal: AbortSignal): Promise<void>;
  /** Takes snapshots, all at one moment or none. Throws "exists" when one is there. */
  snapshot(
    names: readonly [string, ...string[]],
    values: Readonly<Record<string, string>>,
    look: PropertyQuery,
    signal: AbortSignal,
  ): Promise<Creation>;
  /**
   * The names that snapshots of what lies directly below `parent` have, and copies two levels below `copies`, without where they are.
   * Throws as `read`. Absent where `namesakes` is quick however many snapshots there are.
   */
  snapshotNames?(parent: string, copies: string, signal: AbortSignal): Promise<readonly string[]>;
  /** What has the name of a snapshot, found by names alone, and other things that are read along. Throws as `read`. */
  namesakes(wanted: SnapshotName, look: PropertyQuery, signal: AbortSignal): Promise<SnapshotsOfName>;
  /**
   * A dataset and what lies directly below it, of these kinds; with `depth` 2 one level more. Nothing when it is not there.
   * Throws as `read`.
   */
  below(
    parent: string,
    kinds: readonly DatasetType[],
    properties: readonly string[],
    depth: 1 | 2,
    signal: AbortSignal,
  ): Promise<readonly Entry[]>;
  /**
   * A dataset with all that lies directly below it, and other things that are read along, by name; where it is there, without those
   * that it lies in. Throws as `read`.
   */
  family(dataset: string, look: PropertyQuery, signal: AbortSignal): Promise<Entries>;
  /**
   * Destroys one thing; success when it is gone or never was. A file system that somebody uses stays as it was, mounted and shared
   * and with its snapshots: "used" where it is known who that is, "busy" where it is not.
   */
  destroy(name: string, how: DestroyOptions, signal: AbortSignal): Promise<void>;
  /** Gives a dataset another name, with its snapshots and what lies below. */
  rename(from: string, to: string, signal: AbortSignal): Promise<void>;
  /** Throws where volumes cannot be made at all, before anything of one is. Absent where nothing has to be asked for that. */
  ready?(signal: AbortSignal): Promise<void>;
  /**
   * Finishes the renaming of a copy that broke off on its way; answers whether there was anything to do. Absent where renaming is one
   * step.
   */
  finishRename?(from: string, to: string, signal: AbortSignal): Promise<boolean>;
  /** Mounts a file system; success when it is mounted. */
  mount(name: string, signal: AbortSignal): Promise<void>;
  /** The states of pools in the words of zpool(8), "ONLINE" and others, by name; those that cannot be told are absent. */
  pools(names: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>>;
  /** The folders that the host's NFS server exports now; undefined where that cannot be told. Absent where nobody can tell. */
  exported?(signal: AbortSignal): Promise<ReadonlySet<string> | undefined>;
  /** Shares a file system as its properties say; success when it is shared. */
  share?(name: string, signal: AbortSignal): Promise<void>;
  /** Copies, or goes on copying, to the end. Throws "busy" when somebody else does. */
  copy(copy: Copy, signal: AbortSignal): Promise<void>;
}

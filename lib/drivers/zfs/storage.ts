import type { Protocol } from "../../core/access.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import type { ErrorMapping, FailureContext } from "../failure.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { DatasetNames } from "./names.ts";
import type { Marks } from "./properties.ts";
import { type Permissions, type Zfs, ZfsError, type ZfsFailure } from "./zfs.ts";

/** Volumes that are file systems. */
export interface FilesystemSettings {
  readonly type: "filesystem";
  /** Limit volumes to their size (refquota). */
  readonly quotas: boolean;
  /** Set their size aside (refreservation). */
  readonly reservation: boolean;
  readonly permissions: Permissions | undefined;
  /** The smallest size in bytes that the system takes; smaller volumes are made as large as that. */
  readonly least?: bigint | undefined;
}

/** Volumes that are block devices. */
export interface VolumeSettings {
  readonly type: "volume";
  /** As ZFS takes it, "16K". */
  readonly blocksize: string;
  /** Empty: inherited. */
  readonly compression: string;
  readonly dedup: string;
  /** Set their whole size aside; sparse otherwise. */
  readonly thick: boolean;
}

/** What a store of datasets is like. */
export interface StoreSettings {
  /** Datasets that may not exist yet; their pools must. */
  readonly parent: string;
  readonly detachedParent: string;
  /** Templates by property. */
  readonly datasetProperties: Readonly<Record<string, string>>;
  readonly snapshotProperties: Readonly<Record<string, string>>;
  readonly volumes: FilesystemSettings | VolumeSettings;
  /** Properties of ZFS that cannot be set, however ZFS is reached here. */
  readonly fixed: ReadonlySet<string>;
  /** Values that share a new volume, such as sharenfs. */
  readonly sharing: Readonly<Record<string, string>>;
  /** Properties with which the share keeps notes, without their prefix. */
  readonly noteKeys: readonly string[];
  readonly protocol: Protocol;
  readonly marks: Marks;
  /** What becomes of a deleted volume that snapshots or clones still need: refused, or set aside until they are gone. */
  readonly dependents: "fail" | "tombstone";
  /** What becomes of snapshots that csimux did not take when their volume is deleted: destroyed with it, or kept, and the volume with them. */
  readonly foreignSnapshots: "delete" | "keep";
}

/** The storage of one connection, and how its failures are told. */
export class ConnectionContext implements FailureContext {
  readonly connection: string;
  readonly identity: ConnectionIdentity;
  readonly settings: StoreSettings;
  readonly names: DatasetNames;
  readonly zfs: Zfs;

  constructor(identity: ConnectionIdentity, settings: StoreSettings, names: DatasetNames, zfs: Zfs) {
    this.connection = identity.connection;
    this.identity = identity;
    this.settings = settings;
    this.names = names;
    this.zfs = zfs;
  }

  explain(error: unknown): ErrorMapping | undefined {
    return zfsErrorMapping(error);
  }

  /** An error that names the connection. */
  error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }
}

/** What a refusal of ZFS means to a caller, and what to do about it. */
const meanings: Readonly<Record<ZfsFailure, readonly [Code, string]>> = {
  absent: ["not-found", "it does not exist"],
  "parent-absent": ["aborted", "another call may be creating it; repeat the call"],
  "pool-absent": ["unavailable", "correct the dataset names of the connection, or import the pool"],
  exists: ["aborted", "something of this name exists; repeat the call"],
  busy: ["aborted", "somebody uses it still; repeat the call"],
  used: ["failed-precondition", "it stays as it was"],
  unshared: ["failed-precondition", "it is not shared: set its sharenfs or sharesmb again, or delete the volume"],
  dependents: ["failed-precondition", "delete what was made from it first"],
  held: ["failed-precondition", "a snapshot is held (zfs holds); release it first"],
  full: ["resource-exhausted", "the pool, or the quota above it, is full"],
  denied: ["permission-denied", "let the account run zfs: as root, with sudo without a password, or with zfs allow"],
  suspended: ["unavailable", "the pool is suspended: mend its disks, then zpool clear"],
  size: ["out-of-range", "the size does not fit what is stored"],
  invalid: ["failed-precondition", "correct the properties of the connection or of the class"],
  incomplete: [
    "unavailable",
    "see what stands between zfs and csimux there (sudo, a wrapper, a login shell, a proxy), then retry",
  ],
  other: ["internal", "see the storage host"],
};

/** The words of ZFS, in ours; undefined for a failure that is not ZFS's. */
export function zfsErrorMapping(error: unknown): ErrorMapping | undefined {
  if (!(error instanceof ZfsError)) return undefined;
  const [code, advice] = meanings[error.failure];
  const text = `${error.message}; ${advice}`;
  return error.failure === "pool-absent" || error.failure === "suspended"
    ? { code, text, refused: "unusable" }
    : { code, text };
}

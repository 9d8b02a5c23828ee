import type { Protocol } from "../../core/protocols.ts";
import type { Marks } from "./marks.ts";
import type { Permissions } from "./zfs.ts";

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

/** Who can see it. */
export type Seer = "controller" | "node";

/** What it is about: one volume, a whole storage, or what stands between csimux and a storage. */
export type Subject = "volume" | "storage" | "connection";

/**
 * How bad it is: "degraded" is usable and not well, "inaccessible" cannot be used (seen by a node: from there), "data-loss" is
 * lost for good, or strongly suspected to be (CSI VolumeHealthErrorType).
 */
export type Severity = "degraded" | "inaccessible" | "data-loss";

/** For people. */
export const severityWords: Readonly<Record<Severity, string>> = {
  degraded: "degraded",
  inaccessible: "inaccessible",
  "data-loss": "lost",
};

/** One thing that can be wrong. */
export interface Meaning {
  readonly seer: Seer;
  readonly of: Subject;
  readonly severity: Severity;
  /** What has happened. */
  readonly cause: string;
  /** What to do about it. */
  readonly remedy: string;
}

type Row = readonly [cause: string, remedy: string];

const rows = <const N extends string>(
  seer: Seer,
  of: Subject,
  severity: Severity,
  all: Readonly<Record<N, Row>>,
): Readonly<Record<N, Meaning>> =>
  Object.fromEntries(
    Object.entries<Row>(all).map(([name, [cause, remedy]]) => [name, { seer, of, severity, cause, remedy }]),
  ) as Record<N, Meaning>;

/**
 * Every condition that csimux knows, by the word that CSI, the log, the status and the metrics have for it. A failure to look is
 * none of them: that is an error of the call (CSI ControllerGetVolumeHealth).
 */
export const reasons = {
  ...rows("controller", "storage", "degraded", {
    PoolDegraded: ["a disk of the pool has failed or is missing; the data is there", "replace the disk"],
    StorageFull: ["nothing is free on the storage; writes fail", "free some space or add some"],
    StorageReadOnly: ["the file system that holds the volumes is read-only", "look at its disks, mount it writable"],
  }),
  ...rows("controller", "storage", "inaccessible", {
    PoolFaulted: ["the pool has lost more disks than it can bear, or is suspended", "mend its disks, then zpool clear"],
  }),
  ...rows("controller", "volume", "degraded", {
    QuotaFull: ["the volume is as full as its quota lets it be; writes fail", "expand the volume or delete files"],
    VolumeDoubled: [
      "a volume of the same name is on another member of the group: it was made there while one of them could not be asked",
      "see which of them the PersistentVolume names (kubectl get pv); look into the other one, then delete it on its storage",
    ],
    SnapshotLost: ["the content of a snapshot of the volume was removed behind csimux", "delete the snapshot"],
  }),
  ...rows("controller", "volume", "inaccessible", {
    DatasetNotMounted: ["the dataset is not mounted on its host, so nobody can share it", "zfs mount it"],
    KeyNotLoaded: ["the dataset is encrypted and its key is not loaded", "zfs load-key, then zfs mount"],
    TargetMissing: [
      "the target that leads to the volume is not there",
      "ZFS over ssh: csimux makes it anew, or logs why it cannot; others: restore the configuration of the targets",
    ],
    ShareMissing: [
      "the share that leads to the volume is not there",
      "NFS exports of ZFS: csimux shares them anew, or logs why it cannot; others: restore the share",
    ],
  }),
  ...rows("controller", "volume", "data-loss", {
    VolumeMissing: ["csimux knows the volume, and its content is not there", "restore it from a backup"],
  }),
  ...rows("controller", "connection", "degraded", {
    FileRejected: ["its file cannot be used; the last good one goes on being served", "correct the file"],
  }),
  ...rows("controller", "connection", "inaccessible", {
    OutOfService: ["its file cannot be used, and no good one was seen since the start", "correct the file"],
    FileGone: ["its file was removed; its volumes wait until it is back", "restore the file"],
    StorageUnavailable: [
      "calls fail, and so does the driver's own check; until that succeeds, calls that need the storage are refused at once",
      "look at the storage and the network",
    ],
  }),
  ...rows("node", "volume", "degraded", {
    ReadOnlyFileSystem: ["the file system has turned itself read-only, mostly after an error", "see the kernel's log"],
    FileSystemErrors: [
      "ext4 has found errors since its disk was checked last; it may take no more writes",
      "see the kernel's log, then e2fsck",
    ],
    PathsLost: ["some of the ways to the disk are down", "look at the network and the portals"],
  }),
  ...rows("node", "volume", "inaccessible", {
    NotMounted: ["somebody has unmounted what csimux staged", "delete the pod, so that it is mounted anew"],
    StaleHandle: ["the server no longer knows what is mounted", "delete the pod, so that it is mounted anew"],
    NotAnswering: ["the server or disk gives no answer", "look at the server and the network"],
    FileSystemFailed: ["the file system answers with errors", "see the kernel's log"],
    SessionDown: ["no session with the target, or connection with the subsystem, is up", "look at the target"],
    DeviceGone: ["the disk of the volume is not on this node any more", "delete the pod, so that it is attached anew"],
  }),
  ...rows("node", "volume", "data-loss", {
    FolderRemoved: ["the folder that is the volume was removed while it is mounted", "restore it from a backup"],
  }),
  ...rows("node", "storage", "degraded", {
    StorageDegraded: ["this node cannot use some volumes of the storage well", "see the volumes"],
  }),
  ...rows("node", "storage", "inaccessible", {
    StorageUnreachable: ["this node reaches nothing of the storage", "look at the server and the network"],
  }),
} as const;

/** The word for one condition: CamelCase (CSI VolumeHealthEntry.reason). */
export type Reason = keyof typeof reasons;

/** All of them, in the order of the table. */
export const allReasons = Object.keys(reasons) as readonly Reason[];

/** What a word stands for. */
export const meaningOf = (reason: Reason): Meaning => reasons[reason];

/** The process that can observe a condition. */
export type Observer = "controller" | "node";

/** The subject of a condition. That a connection cannot be used is its state. */
export type Subject = "volume" | "storage";

/**
 * "degraded": usable with restrictions; "inaccessible": not usable (if reported by a node: from there); "data-loss":
 * data is lost for good, or strongly suspected to be (CSI VolumeHealthErrorType).
 */
export type Severity = "degraded" | "inaccessible" | "data-loss";

/** The severities in words for people. */
export const severityWords: Readonly<Record<Severity, string>> = {
  degraded: "degraded",
  inaccessible: "inaccessible",
  "data-loss": "lost",
};

/** A possible condition. */
export interface ReasonText {
  readonly observer: Observer;
  readonly of: Subject;
  readonly severity: Severity;
  /** What has happened. */
  readonly cause: string;
  /** What to do about it. */
  readonly remedy: string;
}

type Row = readonly [cause: string, remedy: string];

const rows = <const N extends string>(
  observer: Observer,
  of: Subject,
  severity: Severity,
  all: Readonly<Record<N, Row>>,
): Readonly<Record<N, ReasonText>> =>
  Object.fromEntries(
    Object.entries<Row>(all).map(([name, [cause, remedy]]) => [name, { observer, of, severity, cause, remedy }]),
  ) as Record<N, ReasonText>;

/**
 * All conditions that csimux reports, by their name in CSI, the log, the status and the metrics. A failed check is not
 * among them: it is an error of the call (CSI ControllerGetVolumeHealth).
 */
const reasons = {
  ...rows("controller", "storage", "degraded", {
    PoolDegraded: ["a disk of the pool has failed or is missing; the data is intact", "replace the disk"],
    StorageFull: ["the storage system has no free space; writes fail", "free or add space"],
    StorageReadOnly: ["the file system of the volumes is read-only", "check its disks, then mount it writable"],
  }),
  ...rows("controller", "storage", "inaccessible", {
    PoolFaulted: ["too many disks of the pool have failed, or it is suspended", "repair its disks, then zpool clear"],
  }),
  ...rows("controller", "volume", "degraded", {
    QuotaFull: ["the volume has reached its quota; writes fail", "expand the volume or delete files"],
    VolumeDoubled: [
      "a volume of the same name exists on another member of the group: it was created while that member was unreachable",
      "see which one the PersistentVolume uses (kubectl get pv); check the content of the other one, then delete it on its storage system",
    ],
    SnapshotLost: [
      "the content of a snapshot of the volume was removed by something other than csimux",
      "delete the snapshot",
    ],
  }),
  ...rows("controller", "volume", "inaccessible", {
    DatasetNotMounted: ["the dataset is not mounted on its host, so it cannot be shared", "zfs mount it"],
    KeyNotLoaded: ["the dataset is encrypted and its key is not loaded", "zfs load-key, then zfs mount"],
    TargetMissing: [
      "the target of the volume does not exist",
      "ZFS over ssh and TrueNAS: csimux creates it again, or logs why it cannot; others: restore the configuration of the targets",
    ],
    ShareMissing: [
      "the share of the volume does not exist",
      "exports and usershares of ZFS, shares of TrueNAS: csimux makes them again, or logs why it cannot; others: restore the share",
    ],
  }),
  ...rows("controller", "volume", "data-loss", {
    VolumeMissing: ["csimux has a record of the volume, but its content does not exist", "restore it from a backup"],
  }),
  ...rows("node", "volume", "degraded", {
    ReadOnlyFileSystem: ["the file system has become read-only, usually after an error", "see the kernel's log"],
    FileSystemErrors: [
      "ext4 has found errors since its last check; it may refuse writes",
      "see the kernel's log; the next staging checks it (e2fsck -p)",
    ],
    NotGrown: ["the file system is smaller than its disk", "see the message; the next staging tries again"],
    PathsLost: ["some of the paths to the disk are down", "check the network and the portals"],
  }),
  ...rows("node", "volume", "inaccessible", {
    NotMounted: [
      "something other than csimux has unmounted the volume",
      "delete the pod or stop the allocation, so that it is mounted again",
    ],
    StaleHandle: [
      "the server no longer knows the mounted file system",
      "delete the pod or stop the allocation, so that it is mounted again",
    ],
    NotAnswering: ["the server or disk does not answer", "check the server and the network"],
    FileSystemFailed: ["the file system returns errors", "see the kernel's log, end the pods that use it on the node"],
    SessionDown: ["no session with the target, or connection to the subsystem, is up", "check the target"],
    DeviceGone: [
      "the disk of the volume is no longer on this node",
      "delete the pod or stop the allocation, so that it is attached again",
    ],
  }),
  ...rows("node", "volume", "data-loss", {
    FolderRemoved: ["the folder of the volume was removed while mounted", "restore it from a backup"],
  }),
  ...rows("node", "storage", "degraded", {
    StorageDegraded: ["this node has problems with some volumes of the storage system", "see the volumes"],
  }),
  ...rows("node", "storage", "inaccessible", {
    StorageUnreachable: ["this node cannot reach the storage system", "check the server and the network"],
  }),
} as const;

/** The name of a condition: CamelCase (CSI VolumeHealthEntry.reason). */
export type Reason = keyof typeof reasons;

/** All reasons, in the order of the table. */
export const allReasons = Object.keys(reasons) as readonly Reason[];

/** The meaning of a reason. */
export const reasonText = (reason: Reason): ReasonText => reasons[reason];

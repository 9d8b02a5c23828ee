import { CsiError } from "../../core/errors.ts";
import { backendName, isPlainName } from "../../core/name.ts";
import type { Source } from "../volume.ts";

/** The longest name of a dataset with its snapshot, in bytes (zfs(8), "the maximum length of a dataset name"). */
export const longestName = 255;

/** Begins the names of csimux's own datasets that are not volumes. */
const reserved = "csimux-";

const snapshotShape = /^[A-Za-z0-9_:.+-]{1,128}$/;

/** The length of the shortest text that backendName() can make. */
const shortest = 24;

/** Begins the name of the snapshot that a clone of a volume hangs on, before the id of the clone, as with democratic-csi. */
const forVolume = "volume-source-for-volume-";
/** The same for the copy that becomes a detached snapshot. */
const forSnapshot = "volume-source-for-snapshot-";

/** A snapshot by its id: `<volume>@<name>` in the volume itself, or `<volume>/<name>` as a dataset of its own. */
interface SnapshotId {
  readonly volume: string;
  readonly name: string;
  readonly detached: boolean;
}

/** The parts of a snapshot's id; undefined for text that cannot be one. */
export function snapshotId(id: string): SnapshotId | undefined {
  const [, volume = "", separator = "", name = ""] = /^([^@/]+)([@/])([^@/]+)$/.exec(id) ?? [];
  if (!isVolumeId(volume) || !isSnapshotName(name)) return undefined;
  return { volume, name, detached: separator === "/" };
}

/** Whether text can be the id of a volume: never a path, an option, a list or a range to zfs. */
export const isVolumeId = (id: string): boolean => isPlainName(id) && !id.startsWith(reserved);

/** Whether text can be the name of one of csimux's snapshots, also as a dataset, which "." and ".." cannot be (OpenZFS, zfs_namecheck.c). */
export const isSnapshotName = (text: string): boolean =>
  snapshotShape.test(text) && !text.startsWith("-") && text !== "." && text !== "..";

/** Whether csimux took a snapshot of this name for a clone or copy. */
export const isTemporary = (snapshotName: string): boolean =>
  snapshotName.startsWith(forVolume) || snapshotName.startsWith(forSnapshot);

/** The volume or detached snapshot that a snapshot was taken for, by its whole name; undefined for other snapshots. */
export function temporaryFor(snapshot: string): Source | undefined {
  const [, volume = "", name = ""] = /([^/@]+)@([^@]+)$/.exec(snapshot) ?? [];
  const id = name.startsWith(forSnapshot)
    ? `${volume}/${name.slice(forSnapshot.length)}`
    : name.slice(forVolume.length);
  if (snapshotId(id)) return { kind: "snapshot", id };
  return name.startsWith(forVolume) && isVolumeId(id) ? { kind: "volume", id } : undefined;
}

/**
 * The name of a snapshot that only its clones still need, but whose own name is needed again, or whose deletion (defer_destroy) cannot be
 * read.
 */
export const discardedName = (guid: string): string => `${reserved}deleted-${guid}`;

/** Whether a snapshot has such a name. */
export const isDiscarded = (name: string): boolean => name.includes(`@${reserved}deleted-`);

/** Begins the names of copies while they are made. */
const receiving = `${reserved}recv-`;

/** Whether a dataset is a copy that has not received its final name. */
export const isStaging = (dataset: string): boolean =>
  dataset.slice(dataset.lastIndexOf("/") + 1).startsWith(receiving);

// Copies to and from other connections.

/** Begins the names of records of copies, and of the snapshots with which copies are made. */
const copying = `${reserved}copy-`;
/** Begins the names of targets: what other connections' content is received into. */
const copyTarget = `${reserved}land-`;

/** The tag that holds what is protected for a copy; the key is that of copyKey(). */
export const copyTag = (key: string): string => `${copying}${key}`;

/** The key in such a tag; undefined for another tag. */
export const keyOfTag = (tag: string): string | undefined => /^csimux-copy-([a-z2-7]{16})$/.exec(tag)?.[1];

/** The name of the snapshot of pass `pass` of a copy. */
export const copySnapshotName = (key: string, pass: number): string => `${copyTag(key)}-${pass}`;

/** The key of the copy that a snapshot was taken for; undefined for other snapshots. */
export const keyOfCopySnapshot = (snapshot: string): string | undefined =>
  /@csimux-copy-([a-z2-7]{16})-\d+$/.exec(snapshot)?.[1];

/** The snapshot of the round before that of `snapshot`; undefined for the first one, and for snapshots that no copy has taken. */
export function copySnapshotBefore(snapshot: string): string | undefined {
  const [, copy = "", round = "0"] = /^(.+@csimux-copy-[a-z2-7]{16}-)([1-9]\d{0,8})$/.exec(snapshot) ?? [];
  return round === "0" ? undefined : `${copy}${Number(round) - 1}`;
}

/** The name of a received snapshot. It has the guid of the sent one. */
export const receivedName = (guid: string): string => `${copying}${guid}`;

/** Whether a snapshot of a target was received. */
export const isReceived = (snapshot: string): boolean => /@csimux-copy-\d+$/.test(snapshot);

/** The name of the copy that becomes the volume of this dataset. */
export function stagingOf(dataset: string): string {
  const at = dataset.lastIndexOf("/") + 1;
  return `${dataset.slice(0, at)}${receiving}${dataset.slice(at)}`;
}

/** Ids of a connection, and the names of their datasets. A class, because a process may have thousands of connections. */
export class DatasetNames {
  /** The parents of volumes and of detached snapshots. */
  readonly parent: string;
  readonly detachedParent: string;
  readonly #maxIdBytes: number;

  /** Throws "failed-precondition" when the parents leave too little room for names. */
  constructor(parent: string, detachedParent: string, maxIdBytes: number) {
    this.parent = parent;
    this.detachedParent = detachedParent;
    this.#maxIdBytes = maxIdBytes;
    // <parent>/<volume>@volume-source-for-snapshot-<name>, at their shortest.
    const spare = longestName - this.#longest - 2 - forSnapshot.length - 2 * shortest;
    if (spare < 0)
      throw new CsiError(
        "failed-precondition",
        `datasetParentName and detachedSnapshotsDatasetParentName must be at most ${this.#longest + spare} characters long`,
      );
  }

  get #longest(): number {
    return Math.max(this.parent.length, this.detachedParent.length);
  }

  /** The pool of volumes. */
  get pool(): string {
    return poolOf(this.parent);
  }

  /** The pools of volumes and of detached snapshots. */
  get pools(): readonly string[] {
    return [...new Set([this.pool, poolOf(this.detachedParent)])];
  }

  dataset(volume: string): string {
    return `${this.parent}/${volume}`;
  }

  /** The id of the volume in a dataset; undefined for a dataset that cannot be one. */
  volumeOf(name: string): string | undefined {
    const id = name.slice(this.parent.length + 1);
    return name.startsWith(`${this.parent}/`) && isVolumeId(id) ? id : undefined;
  }

  /** The dataset that holds the detached snapshots of a volume. */
  container(volume: string): string {
    return `${this.detachedParent}/${volume}`;
  }

  /** Whether a dataset has the name of a tombstone. */
  isTombstone(name: string): boolean {
    return name.startsWith(`${this.parent}/${reserved}trash-`);
  }

  /** The id of the detached snapshot in a dataset; text that cannot be one for any other dataset. */
  detachedIdOf(name: string): string {
    return name.startsWith(`${this.detachedParent}/`) ? name.slice(this.detachedParent.length + 1) : "";
  }

  /** The id of the volume of this name: the name itself, if it is plain and leaves room for snapshots. */
  idOf(name: string): string {
    const forTwo = Math.floor((longestName - this.parent.length - 2 - forVolume.length) / 2);
    const room = Math.max(shortest, Math.min(this.#maxIdBytes - 1 - shortest, forTwo));
    const id = backendName(name, room);
    // Also what begins like the text of such an id: no two names have one.
    return id.startsWith(reserved) || /^x .*csimux/s.test(name) ? backendName(`x ${name}`, room) : id;
  }

  /** The name of a snapshot in ZFS: the caller's, if ZFS accepts it and the id stays short enough. */
  snapshotName(name: string, volume: string): string {
    const inName = longestName - this.#longest - 2 - volume.length - forSnapshot.length;
    const room = Math.max(shortest, Math.min(this.#maxIdBytes - volume.length - 1, inName));
    const plain = isSnapshotName(name) && !isTemporary(name) && !name.startsWith(reserved);
    return plain && name.length <= room ? name : backendName(plain ? name : `x ${name}`, room);
  }

  /** The dataset or snapshot with the content of a snapshot. */
  snapshot({ volume, name, detached }: SnapshotId): string {
    return detached ? `${this.container(volume)}/${name}` : `${this.dataset(volume)}@${name}`;
  }

  /** The snapshot of the dataset `from` that the volume is made from. */
  sourceFor(from: string, volume: string): string {
    return `${from}@${forVolume}${volume}`;
  }

  /** The snapshot of a volume that its detached snapshot is copied from. */
  sourceForSnapshot(volume: string, name: string): string {
    return `${this.dataset(volume)}@${forSnapshot}${name}`;
  }

  /** The name of the copy that becomes a volume. */
  staging(volume: string): string {
    return stagingOf(this.dataset(volume));
  }

  /** The dataset with the record of a copy from another connection. */
  record(volume: string): string {
    return this.dataset(`${copying}${volume}`);
  }

  /** The id of the volume whose record is in a dataset; undefined for another dataset. */
  recordOf(name: string): string | undefined {
    const prefix = this.dataset(copying);
    const id = name.slice(prefix.length);
    return name.startsWith(prefix) && isVolumeId(id) ? id : undefined;
  }

  /** The dataset that receives the content of another connection, until it becomes the volume. */
  copyTarget(volume: string): string {
    return this.dataset(`${copyTarget}${volume}`);
  }

  /** The name of the copy that becomes a detached snapshot. */
  snapshotStaging(volume: string, name: string): string {
    return `${this.detachedParent}/${receiving}${backendName(`${volume} ${name}`, 64)}`;
  }

  /** The name of a deleted volume that something still needs. `guid` is the dataset's. */
  tombstone(guid: string): string {
    return `${this.parent}/${reserved}trash-${guid}`;
  }

  /** Whether a snapshot was taken for a clone of this connection and goes with it, by its name and that of its dataset. */
  isOwnOrigin(snapshot: string): boolean {
    const [of = "", name = ""] = snapshot.split("@");
    if (!isTemporary(name) && !isDiscarded(snapshot)) return false;
    const made = isStaging(of) ? of.replace(receiving, "") : of;
    if (this.isTombstone(of) || this.volumeOf(made) !== undefined) return true;
    return snapshotId(this.detachedIdOf(of))?.detached === true;
  }
}

/** The dataset of a snapshot, by its whole name; that of a dataset is its own (zfs(8)). */
export const datasetOf = (name: string): string => name.split("@")[0] ?? "";

/** What the whole name of a snapshot has after "@". */
export const snapshotNameOf = (snapshot: string): string => snapshot.slice(snapshot.indexOf("@") + 1);

/** The pool of a dataset or snapshot (zfs(8)). */
export const poolOf = (name: string): string => name.split(/[/@]/)[0] ?? "";

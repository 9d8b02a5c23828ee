import { CsiError } from "../../core/errors.ts";
import { backendName } from "../../core/name.ts";

/** The longest name of a dataset with its snapshot, in bytes (zfs(8), "the maximum length of a dataset name"). */
export const longestName = 255;

/** What our own datasets beside volumes begin with; no volume gets such an id. */
const ours = "csimux-";

const volumeShape = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;
const snapshotShape = /^[A-Za-z0-9_:.+-]{1,128}$/;

/** The shortest text that backendName() can make. */
const least = 24;

/** The prefix of the snapshot that a clone of a volume hangs on; the id of the clone follows. As democratic-csi names it. */
const forVolume = "volume-source-for-volume-";
/** The same for the copy that becomes a detached snapshot. */
const forSnapshot = "volume-source-for-snapshot-";

/** A snapshot by its id: `<volume>@<name>` in the volume itself, or `<volume>/<name>` as a dataset of its own. */
export interface SnapshotId {
  readonly volume: string;
  readonly name: string;
  readonly detached: boolean;
}

/** The parts of a snapshot's id; undefined for a text that cannot be one. */
export function snapshotId(id: string): SnapshotId | undefined {
  const [, volume = "", mark = "", name = ""] = /^([^@/]+)([@/])([^@/]+)$/.exec(id) ?? [];
  if (!isVolumeId(volume) || !isSnapshotName(name)) return undefined;
  return { volume, name, detached: mark === "/" };
}

/** Whether a text can be the id of a volume: nothing that is a path, an option, a list or a range to zfs. */
export const isVolumeId = (id: string): boolean => volumeShape.test(id) && !id.startsWith(ours);

/** Whether a text can be the name of a snapshot that we give out. */
export const isSnapshotName = (text: string): boolean => snapshotShape.test(text) && !text.startsWith("-");

/** Whether a snapshot's name is one that we make for our own use. */
export const isTemporary = (snapshotName: string): boolean =>
  snapshotName.startsWith(forVolume) || snapshotName.startsWith(forSnapshot);

/** What a deleted snapshot is called that a volume still hangs on, where ZFS' own mark for it cannot be read. */
export const discardedName = (guid: string): string => `${ours}deleted-${guid}`;

/** Whether a snapshot is a deleted one that only waits for the volumes made from it. */
export const isDiscarded = (name: string): boolean => name.includes(`@${ours}deleted-`);

/** What copies are called while they are made. */
const receiving = `${ours}recv-`;

/** Whether a dataset is a copy that csimux makes and that has not got its name yet. */
export const isStaging = (dataset: string): boolean =>
  dataset.slice(dataset.lastIndexOf("/") + 1).startsWith(receiving);

/** Where the copy is made that becomes the volume of this dataset. */
export function stagingOf(dataset: string): string {
  const at = dataset.lastIndexOf("/") + 1;
  return `${dataset.slice(0, at)}${receiving}${dataset.slice(at)}`;
}

/** Ids of a connection and the names of datasets that belong to them. */
export class DatasetNames {
  readonly #parent: string;
  readonly #detached: string;
  readonly #maxIdBytes: number;

  /**
   * `parent`: where volumes are; `detached`: where detached snapshots are. Throws "failed-precondition" when names below them
   * cannot fit.
   */
  constructor(parent: string, detached: string, maxIdBytes: number) {
    this.#parent = parent;
    this.#detached = detached;
    this.#maxIdBytes = maxIdBytes;
    const longest = Math.max(parent.length, detached.length);
    // <parent>/<volume>@volume-source-for-snapshot-<name>, at their shortest.
    const room = longestName - longest - 2 - forSnapshot.length - 2 * least;
    if (room < 0)
      throw new CsiError(
        "failed-precondition",
        `datasetParentName and detachedSnapshotsDatasetParentName must be at most ${longest + room} characters long`,
      );
  }

  get parent(): string {
    return this.#parent;
  }

  get detachedParent(): string {
    return this.#detached;
  }

  get pool(): string {
    return this.#parent.split("/")[0] ?? "";
  }

  /** The id of the volume of this name: the name itself, where it is plain and leaves room for what hangs on it. */
  idOf(name: string): string {
    const forTwo = Math.floor((longestName - this.#parent.length - 2 - forVolume.length) / 2);
    const room = Math.max(least, Math.min(this.#maxIdBytes - 1 - least, forTwo));
    const id = backendName(name, room);
    return id.startsWith(ours) ? backendName(`x ${name}`, room) : id;
  }

  dataset(volume: string): string {
    return `${this.#parent}/${volume}`;
  }

  /** The volume that a dataset is; undefined for one that is none. */
  volumeOf(dataset: string): string | undefined {
    const id = dataset.slice(this.#parent.length + 1);
    return dataset.startsWith(`${this.#parent}/`) && isVolumeId(id) ? id : undefined;
  }

  /** The name of a snapshot in ZFS: the caller's, where ZFS takes it and the id stays short enough. */
  snapshotName(name: string, volume: string): string {
    const inName =
      longestName - Math.max(this.#parent.length, this.#detached.length) - 2 - volume.length - forSnapshot.length;
    const room = Math.max(least, Math.min(this.#maxIdBytes - volume.length - 1, inName));
    const plain = snapshotShape.test(name) && !name.startsWith("-") && !isTemporary(name) && !name.startsWith(ours);
    return plain && name.length <= room ? name : backendName(plain ? name : `x ${name}`, room);
  }

  /** The dataset or snapshot that has a snapshot's content. */
  snapshot({ volume, name, detached }: SnapshotId): string {
    return detached ? `${this.#detached}/${volume}/${name}` : `${this.#parent}/${volume}@${name}`;
  }

  /** The dataset that holds the detached snapshots of a volume. */
  container(volume: string): string {
    return `${this.#detached}/${volume}`;
  }

  /** The snapshot of `dataset` that the volume is made from. */
  sourceFor(dataset: string, volume: string): string {
    return `${dataset}@${forVolume}${volume}`;
  }

  /** The snapshot of a volume that its detached snapshot is copied from. */
  sourceForSnapshot(volume: string, name: string): string {
    return `${this.dataset(volume)}@${forSnapshot}${name}`;
  }

  /** Where the copy is made that becomes a volume. */
  staging(volume: string): string {
    return stagingOf(this.dataset(volume));
  }

  /** Where the copy is made that becomes a detached snapshot. */
  snapshotStaging(volume: string, name: string): string {
    return `${this.#detached}/${receiving}${backendName(`${volume} ${name}`, 64)}`;
  }

  /** The name of a deleted volume that something still needs. `guid` is the dataset's. */
  tombstone(guid: string): string {
    return `${this.#parent}/${ours}trash-${guid}`;
  }

  /**
   * Whether a snapshot was made for a clone of this connection and goes with it: one of ours by its name, and of something that lies
   * where volumes or detached snapshots of this connection lie.
   */
  isOwnOrigin(snapshot: string): boolean {
    const [dataset = "", name = ""] = snapshot.split("@");
    if (!isTemporary(name)) return false;
    const made = isStaging(dataset) ? dataset.replace(receiving, "") : dataset;
    if (this.isTombstone(dataset) || this.volumeOf(made) !== undefined) return true;
    const copied = dataset.startsWith(`${this.#detached}/`) && snapshotId(dataset.slice(this.#detached.length + 1));
    return copied ? copied.detached : false;
  }

  /** Whether a dataset is a deleted volume that something still needs. */
  isTombstone(dataset: string): boolean {
    return dataset.startsWith(`${this.#parent}/${ours}trash-`);
  }
}

import { CsiError } from "../../core/errors.ts";
import { parseHandle } from "../../core/handle.ts";
import { isKubeletMountPoint, type KubeletVolume, kubeletVolumeAt } from "../mount/kubelet.ts";
import type { MountTable } from "../mount/mount-table.ts";
import { namesPath, type StageRecord, type StageRecords, stagedAt } from "./stage-records.ts";

/** A name under which this process is a CSI driver; with a connection where the name stands for that one alone. */
export interface DriverName {
  readonly name: string;
  readonly connection?: string;
}

/** Whose the mounts of this node are. A record is believed only where it fits what is mounted. */
export class MountOwnership {
  readonly #records: StageRecords;
  readonly #drivers: readonly DriverName[];

  constructor(records: StageRecords, drivers: readonly DriverName[]) {
    this.#records = records;
    this.#drivers = drivers;
  }

  /**
   * Whether a real place is this volume's to unmount. Never where the kubelet names another volume or driver for it. Its record
   * must name the place, and what is mounted there must be what was seen when it was recorded. Where it only may be that, or where
   * the kubelet alone names the volume, no other record may name the place: an interrupted call leaves a claim on a place that
   * another volume can have taken since. Where nothing is mounted, the record or a place of the kubelet is enough.
   */
  async owns(volumeId: string, record: StageRecord | undefined, place: string, table: MountTable): Promise<boolean> {
    if (table.layers(place) === 0) {
      if (namesPath(record, place)) return true;
      return isKubeletMountPoint(place) && !(await this.#records.isNamedByOther(place, volumeId));
    }
    const told = await kubeletVolumeAt(place);
    if (told && !this.#isSame(volumeId, told)) return false;
    const own = record && namesPath(record, place) ? record : undefined;
    if (own && wasSeen(own, place, table)) return true;
    if (!told && !(own && mayBe(own, place, table))) return false;
    return !(await this.#records.isNamedByOther(place, volumeId));
  }

  /** The record when its volume is staged in truth; otherwise it is what an interrupted call or a reboot left. */
  async stillStaged(record: StageRecord | undefined, table: MountTable): Promise<StageRecord | undefined> {
    if (!record || table.layers(stagedAt(record)) === 0) return undefined;
    return (await this.owns(record.volumeId, record, stagedAt(record), table)) ? record : undefined;
  }

  /**
   * Whether the kubelet means this volume of this driver. Under the name of a driver that was taken over its ids have no prefix;
   * csimux keeps the volume under the whole handle.
   */
  #isSame(volumeId: string, { driverName, volumeHandle }: KubeletVolume): boolean {
    const handle = parseHandle(volumeId, "volume");
    return this.#drivers.some(({ name, connection }) => {
      if (name !== driverName) return false;
      if (connection === undefined) return volumeHandle === volumeId;
      return handle?.connection === connection && handle.id === volumeHandle;
    });
  }
}

/** Numbers of file systems that are not on one device begin so. */
const anonymous = /^0:/;

/** Whether a place shows what the record says was seen there. */
function wasSeen(record: StageRecord, place: string, table: MountTable): boolean {
  const published = record.published.find(({ target }) => target === place);
  return [published?.shows, record.shows].some(shows => shows !== undefined && table.shows(place, shows));
}

/** Whether what is mounted at a place may be what the record says, although it was not seen so. */
function mayBe({ attached, shows }: StageRecord, place: string, table: MountTable): boolean {
  const top = table.top(place);
  if (!top) return false;
  // The source of a folder's mount can be renamed; it stays in its file system.
  if (!attached) return shows !== undefined && top.device === shows.device;
  // A call that ended between mounting and noting what it saw: programs and servers may call the source otherwise.
  if (attached.kind === "share")
    return table.isOf(place, attached) || (!shows && table.isOfType(place, attached.fsType));
  const { mounted } = attached;
  if (!mounted) return false;
  return anonymous.test(top.device) ? table.isOf(place, mounted) : top.device === mounted.number;
}

/** Throws "failed-precondition" when something is mounted at a place that is not known to be this volume's: it stays. */
export function refuseForeign(volumeId: string, place: string, table: MountTable): void {
  if (table.layers(place) === 0) return;
  const what = `the mount at ${place} was not made for volume "${volumeId}"`;
  throw new CsiError(
    "failed-precondition",
    `${what} as far as csimux knows; it stays, unmount it by hand if it is to go`,
  );
}

import { CsiError } from "../../core/errors.ts";
import { parseHandle } from "../../core/handle.ts";
import { hasNoDevice } from "../../core/mountinfo.ts";
import type { MountTable } from "../mount/mount-table.ts";
import { isKubeletMountPoint, type KubeletVolume, kubeletVolumeAt, nomadFolderOf } from "./mount-points.ts";
import { namesPath, type StageRecord, type StageRecords, stagedAt } from "./stage-records.ts";

/** A driver name that this process serves; `connection` is set if the name belongs to a single connection. */
export interface DriverName {
  readonly name: string;
  readonly connection?: string;
}

/** Decides to which volume the mounts of this node belong. Trusts a record only if it matches the mount. */
export class MountOwnership {
  readonly #records: StageRecords;
  readonly #drivers: readonly DriverName[];

  constructor(records: StageRecords, drivers: readonly DriverName[]) {
    this.#records = records;
    this.#drivers = drivers;
  }

  /**
   * Whether this volume may unmount a real path. Never if the kubelet's file names another volume or driver for it. The
   * volume's record must name the path, and the mount must show what was recorded. If the match is not certain, or only
   * the kubelet names the volume, no other record may name the path: the record of an interrupted call may name a path
   * that another volume has taken since. Nomad keeps no such file: there, a mount in the plugin's own folder that no record
   * names belongs to the volume of the call. If nothing is mounted, the record or the form of the path is sufficient.
   */
  async owns(volumeId: string, record: StageRecord | undefined, path: string, table: MountTable): Promise<boolean> {
    if (table.layers(path) === 0) {
      if (namesPath(record, path)) return true;
      const isExpected = isKubeletMountPoint(path) || nomadFolderOf(path, table) !== undefined;
      return isExpected && !(await this.#records.isNamedByOther(path, volumeId));
    }
    const volume = await kubeletVolumeAt(path);
    if (volume && !this.#isSame(volumeId, volume)) return false;
    const own = record && namesPath(record, path) ? record : undefined;
    if (own && wasSeen(own, path, table)) return true;
    const canBeOwn = own ? canBe(own, path, table) : nomadFolderOf(path, table) !== undefined;
    if (!volume && !canBeOwn) return false;
    return !(await this.#records.isNamedByOther(path, volumeId));
  }

  /** Whether the kubelet's file says that this inline volume is published at a path. */
  async isInlineAt(volumeId: string, path: string): Promise<boolean> {
    const volume = await kubeletVolumeAt(path);
    return volume?.isInline === true && this.#isSame(volumeId, volume);
  }

  /** The record if its volume is really staged; undefined for a record left by an interrupted call or a reboot. */
  async stillStaged(record: StageRecord | undefined, table: MountTable): Promise<StageRecord | undefined> {
    if (!record || table.layers(stagedAt(record)) === 0) return undefined;
    return (await this.owns(record.volumeId, record, stagedAt(record), table)) ? record : undefined;
  }

  /** Whether the kubelet names this volume. Handles of a driver that was taken over lack the connection prefix. */
  #isSame(volumeId: string, { driverName, volumeHandle }: KubeletVolume): boolean {
    const handle = parseHandle(volumeId, "volume");
    return this.#drivers.some(({ name, connection }) => {
      if (name !== driverName) return false;
      if (connection === undefined) return volumeHandle === volumeId;
      return handle?.connection === connection && handle.id === volumeHandle;
    });
  }
}

/** Whether the mount at a path shows what the record contains. */
function wasSeen(record: StageRecord, path: string, table: MountTable): boolean {
  const published = record.published.find(({ target }) => target === path);
  return [published?.shows, record.shows].some(shows => shows !== undefined && table.shows(path, shows));
}

/** Whether the mount at a path can be the recorded one, although the record does not contain what it shows. */
function canBe({ attached, shows }: StageRecord, path: string, table: MountTable): boolean {
  const top = table.top(path);
  if (!top) return false;
  // The source of a folder's mount can be renamed; it stays in its file system.
  if (!attached) return shows !== undefined && top.device === shows.device;
  // The call may have ended between mounting and recording the result: programs and servers may show another source.
  if (attached.kind === "share") return table.isOf(path, attached) || (!shows && table.isOfType(path, attached.fsType));
  const { mounted } = attached;
  if (!mounted) return false;
  return hasNoDevice(top.device) ? table.isOf(path, mounted) : top.device === mounted.number;
}

/** Throws "failed-precondition" if a path has a mount that is not known to belong to this volume. */
export function refuseForeign(volumeId: string, path: string, table: MountTable): void {
  if (table.layers(path) === 0) return;
  const what = `the mount at ${path} was not made for volume "${volumeId}"`;
  const text = `${what} as far as csimux knows; it was not unmounted, unmount it manually if it is not needed`;
  throw new CsiError("failed-precondition", text);
}

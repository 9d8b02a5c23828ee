import type { Call } from "../../core/call.ts";
import type { AttachedDevice } from "../attach/attacher.ts";
import type { MountErrorPatterns } from "../mount/mount-errors.ts";

/** How a device is to be made mountable. */
export interface PrepareRequest {
  readonly volumeId: string;
  /** The type that was asked for; undefined leaves it to what the device holds, and to a default for an empty one. */
  readonly fsType: string | undefined;
  /** Nothing may be written: no making, no checking with repair, no growing, no replaying of a journal. */
  readonly readonly: boolean;
}

/** What mount(8) is to be given for a device. */
export interface Mountable {
  /** The device file: the device itself or one of its partitions. */
  readonly source: string;
  /** The number of `source` as "major:minor". */
  readonly number: string;
  readonly fsType: string;
  /** Options that this file system needs besides those of the volume, such as "nouuid", or "norecovery" when only read. */
  readonly options: readonly string[];
  /** What mount(8) complains about with this file system, besides what it does with all. */
  readonly errorPatterns?: MountErrorPatterns;
}

/** A mounted file system of a device. */
export interface MountedDisk {
  readonly volumeId: string;
  readonly source: string;
  /** The number of `source` as "major:minor". */
  readonly number: string;
  readonly fsType: string;
  /** Where it is mounted. */
  readonly at: string;
}

/** A device that is kept open, so that the kernel gives neither its name nor its number to another disk. */
export interface HeldDevice {
  /** Throws "unavailable" where the kernel shows another disk now than the one that was attached. */
  prove(): Promise<void>;
  release(): Promise<void>;
}

/** File systems on devices. Everything may be repeated, and interrupted after any step. */
export interface Disks {
  /**
   * Opens a device and proves that it is the one that was attached. To be released when what is done with its name is done.
   * Throws "unavailable" where it is gone or another one.
   */
  hold(device: AttachedDevice, call: Call): Promise<HeldDevice>;
  /**
   * Finds or makes the file system of a device that is not mounted for this volume yet, and checks it where that is configured.
   * Makes one only on a device that is provably empty, or provably left so by an own making that was interrupted; what that
   * takes it keeps by itself, because it must outlive unstaging. Throws "failed-precondition" for what it must not touch.
   */
  prepare(device: AttachedDevice, wanted: PrepareRequest, call: Call): Promise<Mountable>;
  /** Makes a file system use the whole of its device, if it does not. Also called after every mount that may write. */
  grow(mounted: MountedDisk, call: Call): Promise<void>;
  /**
   * Has the kernel refuse all writes to a disk, or take them again: a read-only bind mount of a device file keeps nobody from
   * writing to the device. Throws "unavailable".
   */
  protect(path: string, isProtected: boolean, call: Call): Promise<void>;
  /**
   * Whether the kernel has no disk of this number ("major:minor") any more: what is still mounted of it is dead for good. Throws
   * "unavailable" where the kernel does not tell.
   */
  isGone(number: string): Promise<boolean>;
  /** The size of the disk behind a device file. Throws "unavailable" when it is gone. */
  bytes(path: string): Promise<bigint>;
}

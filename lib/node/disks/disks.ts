import type { Call } from "../../core/call.ts";
import type { AttachedDevice } from "../attach/attacher.ts";
import type { MountErrorPatterns } from "../mount/mount-errors.ts";

/** A request to make a device mountable. */
export interface PrepareRequest {
  readonly volumeId: string;
  /** The requested type; undefined accepts the existing type, and the default for an empty device. */
  readonly fsType: string | undefined;
  /** True if nothing may be written: no format, no repair, no growing, no journal replay. */
  readonly readonly: boolean;
}

/** The arguments of mount(8) for a device. */
export interface Mountable {
  /** The device file: the device itself or one of its partitions. */
  readonly source: string;
  /** The number of `source` as "major:minor". */
  readonly number: string;
  readonly fsType: string;
  /**
   * Options that this file system needs in addition to the volume's, such as "nouuid", or "norecovery" for read-only
   * use.
   */
  readonly options: readonly string[];
  /** Error patterns of mount(8) for this file system, in addition to the common ones. */
  readonly errorPatterns?: MountErrorPatterns;
}

/** A mounted file system of a device. */
export interface MountedDisk {
  readonly volumeId: string;
  readonly source: string;
  /** The number of `source` as "major:minor". */
  readonly number: string;
  readonly fsType: string;
  /** The mount point. */
  readonly at: string;
}

/** A device that is kept open to keep the kernel from giving its name and number to another disk. */
export interface HeldDevice {
  /** Throws "unavailable" if the kernel now shows a different disk from the one that was attached. */
  prove(): Promise<void>;
  release(): Promise<void>;
}

/** File systems on devices. Every operation is idempotent and may be interrupted after any step. */
export interface Disks {
  /**
   * Opens a device and proves that it is the one that was attached. Release it when the work with its name is done.
   * Throws "unavailable" if it is gone or has been replaced.
   */
  hold(device: AttachedDevice, call: Call): Promise<HeldDevice>;
  /**
   * Finds or makes the file system of a device that is not yet mounted for this volume, and checks it if so configured.
   * Formats only a device that is provably empty, or provably left in this state by an interrupted format of csimux;
   * the records for that are kept separately, because they must outlive unstaging. Throws "failed-precondition" for a
   * device that it must not touch.
   */
  prepare(device: AttachedDevice, wanted: PrepareRequest, call: Call): Promise<Mountable>;
  /** Grows a file system to the size of its device, if necessary. Also called after every writable mount. */
  grow(mounted: MountedDisk, call: Call): Promise<void>;
  /**
   * Makes the kernel refuse all writes to a disk, or accept them again: a read-only bind mount of a device file does
   * not prevent writes to the device. Throws "unavailable".
   */
  protect(path: string, isProtected: boolean, call: Call): Promise<void>;
  /**
   * Whether the kernel no longer has a disk of this number ("major:minor"), which means that its mounts are dead.
   * Throws "unavailable" if sysfs cannot be read.
   */
  isGone(number: string): Promise<boolean>;
  /** The size of the disk behind a device file. Throws "unavailable" when it is gone. */
  bytes(path: string): Promise<bigint>;
}

/** How one file system is checked before it is mounted. */
export interface CheckSettings {
  readonly enabled: boolean;
  /** Arguments of the checking tool; if not empty, they replace csimux's own. */
  readonly options: readonly string[];
}

/** The settings for file systems in the `node:` block of the main file, by the file systems' names. */
export interface DiskSettings {
  readonly check: Readonly<Record<string, CheckSettings>>;
  /** Additional arguments of mkfs. */
  readonly format: Readonly<Record<string, readonly string[]>>;
}

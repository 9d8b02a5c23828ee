import type { FileHandle } from "node:fs/promises";
import { CsiError } from "../../core/errors.ts";
import type { AttachedDevice } from "../attach/attacher.ts";
import { type BlockDevices, deviceNumber } from "./block-device.ts";
import type { HeldDevice } from "./disks.ts";
import { openDisk } from "./open-disk.ts";

/**
 * A disk that is kept open for reading. While it is open, the kernel does not give its name and number to another disk
 * even if it disappears (drivers/scsi/sd.c, scsi_disk_release; drivers/nvme/host/core.c, nvme_free_ns_head;
 * drivers/md/dm.c, dm_open), so programs that get its path reach this disk or none.
 */
export class HeldDisk implements HeldDevice {
  readonly #devices: BlockDevices;
  readonly #device: AttachedDevice;
  readonly #file: FileHandle;

  private constructor(devices: BlockDevices, device: AttachedDevice, file: FileHandle) {
    this.#devices = devices;
    this.#device = device;
    this.#file = file;
  }

  /** Throws "unavailable" if the disk is gone or has been replaced by another one. */
  static async open(devices: BlockDevices, device: AttachedDevice, signal: AbortSignal): Promise<HeldDisk> {
    const { path } = device;
    // Opening a file that is not a disk can have side effects.
    await devices.prove(device);
    const file = await openDisk(path, signal);
    const disk = new HeldDisk(devices, device, file);
    try {
      // From here on no other disk can take the name; the proof before opening does not count.
      await disk.prove();
      return disk;
    } catch (error) {
      await disk.release();
      throw error;
    }
  }

  async prove(): Promise<void> {
    const { path, number } = this.#device;
    const { rdev } = await this.#file.stat();
    if (deviceNumber(rdev) !== number)
      throw new CsiError("unavailable", `${path} is not the disk that was attached; retrying`);
    await this.#devices.prove(this.#device);
  }

  release(): Promise<void> {
    return this.#file.close();
  }
}

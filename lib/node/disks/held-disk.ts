import type { FileHandle } from "node:fs/promises";
import { CsiError } from "../../core/errors.ts";
import type { AttachedDevice } from "../attach/attacher.ts";
import { type BlockDevices, deviceNumber } from "./block-device.ts";
import type { HeldDevice } from "./disks.ts";
import { openDisk } from "./open-disk.ts";

/**
 * A disk that is open for reading. While it is, the kernel keeps the name and the number of a disk that goes away from all others
 * (drivers/scsi/sd.c, scsi_disk_release; drivers/nvme/host/core.c, nvme_free_ns_head; drivers/md/dm.c, dm_open), so programs
 * that are given its path reach this disk or none.
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

  /** Throws "unavailable" where the disk is gone, or is another one than was attached. */
  static async open(devices: BlockDevices, device: AttachedDevice, signal: AbortSignal): Promise<HeldDisk> {
    const { path } = device;
    // Opening what is no disk can have effects of its own.
    await devices.prove(device);
    const file = await openDisk(path, signal);
    const disk = new HeldDisk(devices, device, file);
    try {
      // From here on nothing can take its place; what was proved before it was opened counts for nothing.
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
      throw new CsiError("unavailable", `${path} is another disk than the one that was attached; retrying`);
    await this.#devices.prove(this.#device);
  }

  release(): Promise<void> {
    return this.#file.close();
  }
}

import type { Call } from "../core/call.ts";
import type { KeyedMutex } from "../io/keyed-mutex.ts";
import { type Attachers, attacherOf } from "./attach/attachers.ts";
import { withTargetLock } from "./attach/target-lock.ts";
import type { Disks } from "./disks/disks.ts";
import { isReadOnly } from "./stage.ts";
import type { StageRecord } from "./state/stage-records.ts";

/** Implements NodeExpandVolume. The caller holds the lock of the volume. */
export class VolumeExpansion {
  readonly #attachers: Attachers;
  readonly #disks: Disks;
  readonly #turns: KeyedMutex;

  constructor(attachers: Attachers, disks: Disks, turns: KeyedMutex) {
    this.#attachers = attachers;
    this.#disks = disks;
    this.#turns = turns;
  }

  /**
   * Grows the device, and the file system mounted at `at`, to the size of the volume. The file system of a read-only
   * volume stays unchanged. Returns the size of the device in bytes; undefined for folders and shares, which the server
   * grew.
   */
  async grow(record: StageRecord, at: string, least: bigint | undefined, call: Call): Promise<bigint | undefined> {
    const attacher = attacherOf(this.#attachers, record.protocol, record.volumeId);
    const work = async () => attacher.grow?.(record, least, call);
    const bytes = await withTargetLock(this.#turns, attacher, record.context, call, work);
    const mounted = record.attached?.kind === "device" ? record.attached.mounted : undefined;
    if (!mounted || isReadOnly(record.mode)) return bytes;
    await this.#disks.grow({ volumeId: record.volumeId, ...mounted, at }, call);
    return bytes;
  }
}

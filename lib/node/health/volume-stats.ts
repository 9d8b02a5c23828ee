import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { isLocalName } from "../../core/local-filesystems.ts";
import type { Mount } from "../../core/mountinfo.ts";
import type { Finding } from "../../health/finding.ts";
import type { Condition } from "../../health/steady.ts";
import type { Disks } from "../disks/disks.ts";
import type { MountTable } from "../mount/mount-table.ts";
import type { Mounts } from "../mount/mounts.ts";
import type { StageRecord } from "../state/stage-records.ts";
import { failureFinding, hasLostDisk, lostDisk, mountFindings, mountTableFindings } from "./mount-findings.ts";
import { sizeOnly, type Usage, type UsageReader } from "./usage.ts";
import type { VolumeHealthMonitor } from "./volume-monitor.ts";

/** A volume that is mounted at a real place. `record` is absent for one that csimux did not stage. */
export interface MountedVolume {
  readonly volumeId: string;
  readonly path: string;
  readonly table: MountTable;
  readonly record: StageRecord | undefined;
}

/** What a look at a mounted volume gave. */
export interface VolumeMeasurement {
  /** Empty when the volume does not answer. */
  readonly usage: readonly Usage[];
  /** What is wrong with it. */
  readonly conditions: readonly Condition[];
  /** Why there is no usage. */
  readonly failure: CsiError | undefined;
}

/** Measures mounted volumes, and takes down what is found to be wrong with them by that. */
export class VolumeStats {
  readonly #mounts: Mounts;
  readonly #disks: Disks;
  readonly #usages: UsageReader;
  readonly #monitor: VolumeHealthMonitor;

  constructor(mounts: Mounts, disks: Disks, usages: UsageReader, watching: VolumeHealthMonitor) {
    this.#mounts = mounts;
    this.#disks = disks;
    this.#usages = usages;
    this.#monitor = watching;
  }

  /** Throws what says nothing about the volume. */
  async measure(seen: MountedVolume, call: Call): Promise<VolumeMeasurement> {
    const { path: place, table, record } = seen;
    const mount = table.top(place);
    try {
      const usage = await this.#usage(seen, call);
      // A server has just answered; a disk may have failed although its file system can still be measured.
      const isDisk = mount && isLocalName(mount.fsType);
      const found = isDisk
        ? await mountFindings(mount, record, this.#mounts, call.signal)
        : tableFindings(mount, record);
      return { usage, conditions: await this.conditionsAfter(seen, found, call), failure: undefined };
    } catch (error) {
      if (!(error instanceof CsiError) || call.signal.aborted) throw error;
      const isLost = record !== undefined && (await hasLostDisk(record, this.#disks));
      const finding = isLost ? lostDisk(record) : failureFinding(error, mount);
      if (!finding) throw error;
      const conditions = await this.conditionsAfter(seen, [...tableFindings(mount, record), finding], call);
      return { usage: [], conditions, failure: error };
    }
  }

  /** What is wrong with a mounted volume that csimux did not stage. Throws what says nothing about it. */
  async health({ path: place, table }: MountedVolume, call: Call): Promise<readonly Condition[]> {
    const mount = table.top(place);
    const found = mount ? await mountFindings(mount, undefined, this.#mounts, call.signal) : [];
    return found.map(each => ({ ...each, ms: 0 }));
  }

  /** What holds after a look; of a volume that csimux did not stage no more is known than what was just found. */
  async conditionsAfter(
    { volumeId, record }: Pick<MountedVolume, "volumeId" | "record">,
    found: readonly Finding[],
    call: Call,
  ): Promise<readonly Condition[]> {
    if (!record) return found.map(each => ({ ...each, ms: 0 }));
    const ways = found.some(({ reason }) => reason === "DeviceGone") ? [] : await this.#monitor.pathFindings(record);
    return this.#monitor.see(volumeId, [...found, ...ways], call.log);
  }

  /** A file system goes on answering this from memory when its disk is gone, so the kernel is asked about the disk first. */
  async #usage({ volumeId, path: place, table, record }: MountedVolume, call: Call): Promise<readonly Usage[]> {
    if (record && (await hasLostDisk(record, this.#disks)))
      throw new CsiError("unavailable", `the disk of volume "${volumeId}" is gone from this node; stage it anew`);
    if (record?.kind === "block") return sizeOnly(await this.#disks.bytes(place));
    return await this.#usages.measure(volumeId, place, table, call.signal);
  }
}

const tableFindings = (mount: Mount | undefined, record: StageRecord | undefined): readonly Finding[] =>
  mount ? mountTableFindings(mount, record) : [];

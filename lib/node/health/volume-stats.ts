import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { isLocalName } from "../../core/local-filesystems.ts";
import type { Mount } from "../../core/mountinfo.ts";
import type { Condition } from "../../health/condition-tracker.ts";
import type { Finding } from "../../health/finding.ts";
import type { Disks } from "../disks/disks.ts";
import type { MountTable } from "../mount/mount-table.ts";
import type { Mounts } from "../mount/mounts.ts";
import type { StageRecord } from "../state/stage-records.ts";
import { failureFinding, hasLostDisk, lostDisk, mountFindings, mountTableFindings } from "./mount-findings.ts";
import { sizeOnly, type Usage, type UsageReader } from "./usage.ts";
import type { VolumeHealthMonitor } from "./volume-monitor.ts";

/** A volume mounted at a real path. `record` is absent if csimux did not stage it. */
export interface MountedVolume {
  readonly volumeId: string;
  readonly path: string;
  readonly table: MountTable;
  readonly record: StageRecord | undefined;
}

/** The result of measuring a mounted volume. */
export interface VolumeMeasurement {
  /** Empty when the volume does not answer. */
  readonly usage: readonly Usage[];
  /** The volume's problems. */
  readonly conditions: readonly Condition[];
  /** The reason for missing usage. */
  readonly failure: CsiError | undefined;
}

/** Measures mounted volumes, and records the problems found. */
export class VolumeStats {
  readonly #mounts: Mounts;
  readonly #disks: Disks;
  readonly #usages: UsageReader;
  readonly #monitor: VolumeHealthMonitor;

  constructor(mounts: Mounts, disks: Disks, usages: UsageReader, monitor: VolumeHealthMonitor) {
    this.#mounts = mounts;
    this.#disks = disks;
    this.#usages = usages;
    this.#monitor = monitor;
  }

  /** Measures a volume. Throws errors that say nothing about the volume. */
  async measure(seen: MountedVolume, call: Call): Promise<VolumeMeasurement> {
    const { path, table, record } = seen;
    const mount = table.top(path);
    try {
      const usage = await this.#usage(seen, call);
      // A server has just answered; a failed disk may still be measurable through its file system.
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

  /** The problems of a mounted volume that csimux did not stage. Throws errors that say nothing about it. */
  async health({ path, table }: MountedVolume, call: Call): Promise<readonly Condition[]> {
    const mount = table.top(path);
    const found = mount ? await mountFindings(mount, undefined, this.#mounts, call.signal) : [];
    return found.map(each => ({ ...each, ms: 0 }));
  }

  /** The conditions after a check; for a volume that csimux did not stage, they are just the findings. */
  async conditionsAfter(
    { volumeId, record }: Pick<MountedVolume, "volumeId" | "record">,
    found: readonly Finding[],
    call: Call,
  ): Promise<readonly Condition[]> {
    if (!record) return found.map(each => ({ ...each, ms: 0 }));
    const ofPaths = found.some(({ reason }) => reason === "DeviceGone") ? [] : await this.#monitor.pathFindings(record);
    return this.#monitor.see(volumeId, [...found, ...ofPaths], call.log);
  }

  /**
   * Measures a volume. Checks the disk first, because a file system still answers from memory when its disk is gone.
   */
  async #usage({ volumeId, path, table, record }: MountedVolume, call: Call): Promise<readonly Usage[]> {
    if (record && (await hasLostDisk(record, this.#disks)))
      throw new CsiError("unavailable", `the disk of volume "${volumeId}" is gone from this node; stage it again`);
    if (record?.kind === "block") return sizeOnly(await this.#disks.bytes(path));
    return await this.#usages.measure(volumeId, path, table, call.signal);
  }
}

const tableFindings = (mount: Mount | undefined, record: StageRecord | undefined): readonly Finding[] =>
  mount ? mountTableFindings(mount, record) : [];

import { dirname } from "node:path";
import type { Call, Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { TryLocks } from "../core/locks.ts";
import { semaphores } from "../core/semaphore.ts";
import { PeriodicRounds } from "../core/time.ts";
import type { Condition } from "../health/condition-tracker.ts";
import type { Answers } from "../io/dial.ts";
import type { CommandRunner } from "../io/runner.ts";
import type { Attachers } from "./attach/attachers.ts";
import type { Disks } from "./disks/disk-filesystems.ts";
import { type StorageHealth, StorageHealthMonitor, VolumeHealthMonitor } from "./health/monitor.ts";
import { type VolumeMeasurement, VolumeStats } from "./health/usage.ts";
import { type InlineProvisioner, InlineVolumes, isInline } from "./inline.ts";
import { checkedPath, normalPath, resolveParents } from "./mount/files.ts";
import { refuseUnseen } from "./mount/mount-table.ts";
import { Mounts } from "./mount/mounts.ts";
import type { NodeParts } from "./parts.ts";
import { VolumePublishing } from "./publish.ts";
import type {
  PublishRequest,
  StageRequest,
  UnpublishRequest,
  UnstageRequest,
  VolumeAtPath,
  VolumeContext,
} from "./requests.ts";
import { VolumeStaging } from "./stage.ts";
import { OrphanedVolumes, PathRestorer, reconcile } from "./state/maintenance.ts";
import { type DriverName, MountOwnership } from "./state/ownership.ts";
import { type StageRecord, StageRecords } from "./state/stage-records.ts";

/** Time limit for reconciling at the start, in milliseconds: the node is not served before. */
const reconcileMs = 10_000;

/** Interval at which lost paths are reopened and orphaned volumes are unstaged, in milliseconds. */
const maintenanceMs = 60_000;

/** The dependencies of NodeVolumes. */
export interface NodePorts {
  /** The names under which the kubelet knows this driver. */
  readonly drivers: readonly DriverName[];
  readonly runner: CommandRunner;
  /** The host's programs. */
  readonly host: CommandRunner;
  /** Returns the flags for every mount of a volume: `node.mount.mount_flags` of its connection or of the main file. */
  readonly mountFlags: (volumeId: string) => Promise<readonly string[]>;
  /** The most volumes that are staged at once; undefined: as many as fit. */
  readonly maxVolumes?: number | undefined;
  readonly attachers: Attachers;
  readonly disks: Disks;
  /** Provisions inline volumes, and the folder of their records, which must survive restarts of the machine. */
  readonly inline?: { readonly maker: InlineProvisioner; readonly folder: string } | undefined;
  /** The folder of the records; must survive restarts of the process. */
  readonly records: string;
  /** The mount table, `/proc/self/mountinfo` outside tests. */
  readonly mountinfo: string;
  /** As in NodeParts. */
  readonly isApart?: boolean;
  /** Checks whether a server is reachable. */
  readonly answers: Answers;
  readonly health: HealthPorts;
}

/** The settings of health checks. */
export interface HealthPorts {
  /** The interval of health checks, in milliseconds; 0 checks only on request. */
  readonly everyMs: number;
  /** How long a condition must last to be raised, and be gone to be cleared, in milliseconds. */
  readonly holdMs: number;
  /** Contexts of volumes that this node might get. */
  readonly elsewhere: () => Promise<readonly VolumeContext[]>;
}

/**
 * The volumes of this node: the node RPCs of CSI in plain values. Every method is idempotent and can be retried after
 * any failure. All throw CsiError: "invalid-argument" for a missing or impossible argument, "aborted" while another
 * operation on the volume or path runs, "unavailable" and "deadline-exceeded" if the outcome is unknown or a mount is
 * busy.
 */
export class NodeVolumes {
  readonly #locks = new TryLocks();
  readonly #parts: NodeParts;
  readonly #staging: VolumeStaging;
  readonly #publishing: VolumePublishing;
  readonly #inline: InlineVolumes | undefined;
  readonly #monitor: VolumeHealthMonitor;
  readonly #stats: VolumeStats;
  readonly #everyMs: number;
  #rounds: readonly PeriodicRounds[] = [];

  /** Does no I/O. */
  constructor({
    drivers,
    runner,
    host,
    inline,
    mountinfo,
    answers,
    health,
    mountFlags,
    maxVolumes,
    ...ports
  }: NodePorts) {
    const mounts = new Mounts(runner, host, mountinfo, ports.records);
    const records = new StageRecords(ports.records);
    const ownership = new MountOwnership(records, drivers);
    this.#parts = { ...ports, mounts, records, ownership, targets: semaphores(1) };
    this.#staging = new VolumeStaging(this.#parts, mountFlags, maxVolumes);
    this.#publishing = new VolumePublishing(this.#parts);
    this.#inline = inline && new InlineVolumes(inline.maker, mounts, ownership, inline.folder);
    const storages = new StorageHealthMonitor(ports.attachers, answers, health.holdMs);
    this.#monitor = new VolumeHealthMonitor(this.#parts, storages, health.elsewhere, health.holdMs);
    this.#stats = new VolumeStats(this.#parts, runner, this.#monitor);
    this.#everyMs = health.everyMs;
  }

  /** Call first: reconciles what an earlier process left, then starts the periodic tasks. Never throws. */
  async begin(log: Log): Promise<void> {
    await reconcile(this.#parts, log, AbortSignal.timeout(reconcileMs));
    const paths = new PathRestorer(this.#parts);
    const orphans = new OrphanedVolumes(this.#parts, (request, call) => this.unstage(request, call));
    const maintain = async (signal: AbortSignal) =>
      void (await Promise.all([paths.run(log, signal), orphans.run(log, signal)]));
    const check = (signal: AbortSignal) => this.#monitor.run(log, signal);
    this.#rounds = [
      new PeriodicRounds(maintenanceMs, maintain),
      ...(this.#everyMs > 0 ? [new PeriodicRounds(this.#everyMs, check)] : []),
    ];
    for (const rounds of this.#rounds) rounds.start();
  }

  /** Stops what `begin` started. */
  end(): void {
    for (const rounds of this.#rounds) rounds.stop();
  }

  /** Stages a volume. Also throws "already-exists", "failed-precondition" and "not-found" (CSI NodeStageVolume). */
  async stage(request: StageRequest, call: Call): Promise<void> {
    const stagingPath = checkedPath(request.stagingPath, "staging_target_path");
    await this.#hold(request.volumeId, stagingPath, () => this.#staging.stage({ ...request, stagingPath }, call));
  }

  /** Succeeds if nothing is staged. Throws "failed-precondition" while the volume is published (NodeUnstageVolume). */
  async unstage(request: UnstageRequest, call: Call): Promise<void> {
    const stagingPath = checkedPath(request.stagingPath, "staging_target_path");
    await this.#hold(request.volumeId, stagingPath, () => this.#staging.unstage({ ...request, stagingPath }, call));
  }

  /** Publishes a volume. Also throws "already-exists" and "failed-precondition" (CSI NodePublishVolume). */
  async publish(request: PublishRequest, call: Call): Promise<void> {
    const targetPath = checkedPath(request.targetPath, "target_path");
    if (this.#parts.isApart) refuseUnseen(dirname(targetPath), await this.#parts.mounts.table());
    if (isInline(request.context))
      return await this.#hold(request.volumeId, targetPath, () =>
        this.#publishInline({ ...request, targetPath }, call),
      );
    if (!request.stagingPath) {
      const text = `volume "${request.volumeId}": staging_target_path is missing; stage the volume first`;
      throw new CsiError("failed-precondition", text);
    }
    const stagingPath = checkedPath(request.stagingPath, "staging_target_path");
    const checked = { ...request, targetPath, stagingPath };
    await this.#hold(request.volumeId, targetPath, () => this.#publishing.publish(checked, call));
  }

  /** Unmounts the target and removes its empty folder or file, never content (CSI NodeUnpublishVolume). */
  async unpublish(request: UnpublishRequest, call: Call): Promise<void> {
    const targetPath = checkedPath(request.targetPath, "target_path");
    const checked = { ...request, targetPath };
    await this.#hold(request.volumeId, targetPath, async () => {
      if (!(await this.#inline?.unpublish(checked, call))) await this.#publishing.unpublish(checked, call);
    });
  }

  /** The usage of a volume; takes no lock. Throws "not-found" if it is not mounted there (CSI NodeGetVolumeStats). */
  async stats(request: VolumeAtPath, call: Call): Promise<VolumeMeasurement> {
    required(request.volumeId, "volume_id");
    const { path, table, record } = await this.#mountedAt(request, call);
    return await this.#stats.measure({ volumeId: request.volumeId, path, table, record }, call);
  }

  /**
   * The problems of a volume on this node; with an empty `path`, of the staged volume. Takes no lock. Throws
   * "not-found" if the volume is unknown on this node (CSI NodeGetVolumeHealth).
   */
  async health({ volumeId, path }: VolumeAtPath, call: Call): Promise<readonly Condition[]> {
    required(volumeId, "volume_id");
    const record = await this.#parts.records.find(volumeId, call.log);
    if (record) return this.#monitor.see(volumeId, await this.#monitor.findings(record, call.signal), call.log);
    if (path === "") throw new CsiError("not-found", `volume "${volumeId}" is unknown on this node`);
    const { path: real, table } = await this.#mountedAt({ volumeId, path }, call);
    return await this.#stats.health({ volumeId, path: real, table, record }, call);
  }

  /** Checks all volumes and returns the problems of storage systems as this node sees them (NodeGetStorageHealth). */
  async storageHealth(call: Call): Promise<readonly StorageHealth[]> {
    await this.#monitor.run(call.log, call.signal);
    return this.#monitor.view().storages;
  }

  /** The volumes that are staged here, or are being staged or unstaged; undefined if that cannot be read. */
  staged(): Promise<readonly string[] | undefined> {
    return this.#parts.records.volumes();
  }

  /** The protocols of the volumes of this node. */
  async protocols(): Promise<ReadonlySet<string>> {
    return new Set((await this.#parts.records.all()).map(({ protocol }) => protocol));
  }

  /** The problems known now, without new checks. */
  healthView() {
    return this.#monitor.view();
  }

  /**
   * Grows the device and file system of an expanded volume on this node, according to the staging record, never
   * according to the current mount. Returns the size in bytes, undefined if the node has nothing to do. Throws
   * "not-found" if the volume is not mounted at the path, and "failed-precondition" if csimux did not stage it.
   */
  async expand(request: VolumeAtPath, least: bigint | undefined, call: Call): Promise<bigint | undefined> {
    const path = normalPath(request.path) ?? request.path;
    return await this.#hold(request.volumeId, path, async () => {
      const record = (await this.#lastDevice(request, call)) ?? (await this.#mountedAt(request, call)).record;
      if (!record) {
        const text = `volume "${request.volumeId}" has no record on this node; publish it again, then expand it`;
        throw new CsiError("failed-precondition", text);
      }
      return await this.#staging.expand(record, least, call);
    });
  }

  async #publishInline(request: PublishRequest, call: Call): Promise<void> {
    if (this.#inline) return await this.#inline.publish(request, call);
    const text = `volume "${request.volumeId}": this node does not provide inline volumes`;
    throw new CsiError("failed-precondition", text);
  }

  /**
   * The staging of a block volume, if nothing is at the path. The kubelet keeps the path of the pod that was the last to get the device
   * (DevicePath of its operation_generator.go), and sends that for the volume of another pod when the last one has ended.
   */
  async #lastDevice({ volumeId, path }: VolumeAtPath, call: Call) {
    const { mounts, ownership, records } = this.#parts;
    const normal = normalPath(path);
    const found = normal === undefined ? undefined : await records.find(volumeId, call.log);
    if (normal === undefined || found?.kind !== "block") return undefined;
    const table = await mounts.table();
    const record = await ownership.stillStaged(found, table);
    const isMounted = table.layers(await resolveParents(normal, table, call.signal)) > 0;
    return isMounted ? undefined : record;
  }

  async #mountedAt({ volumeId, path }: VolumeAtPath, call: Call) {
    required(path, "volume_path");
    const absent = new CsiError(
      "not-found",
      `volume "${volumeId}" is not mounted at ${JSON.stringify(path.slice(0, 200))}`,
    );
    const normal = normalPath(path);
    if (normal === undefined) throw absent;
    const table = await this.#parts.mounts.table();
    const real = await resolveParents(normal, table, call.signal);
    const record: StageRecord | undefined = await this.#parts.records.find(volumeId, call.log);
    if (!table.top(real) || !(await this.#parts.ownership.owns(volumeId, record, real, table))) throw absent;
    return { path: real, table, record };
  }

  async #hold<T>(volumeId: string, path: string, work: () => Promise<T>): Promise<T> {
    required(volumeId, "volume_id");
    return await this.#locks.hold([`volume ${volumeId}`, `path ${path}`], work);
  }
}

/** Throws "invalid-argument". */
function required(value: string, field: string): void {
  if (value === "") throw new CsiError("invalid-argument", `${field} is missing`);
}

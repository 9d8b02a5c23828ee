import type { Call, Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { Locks } from "../core/locks.ts";
import { Rounds } from "../core/rounds.ts";
import type { Condition } from "../health/steady.ts";
import type { Answers } from "../io/answers.ts";
import type { CommandRunner } from "../io/runner.ts";
import { Turns } from "../io/turns.ts";
import type { Attachers } from "./attach/attachers.ts";
import type { Disks } from "./disks/disks.ts";
import { VolumeExpansion } from "./expand.ts";
import { type StorageHealth, StorageHealthMonitor } from "./health/storage-monitor.ts";
import { UsageReader } from "./health/usage.ts";
import { VolumeHealthMonitor } from "./health/volume-monitor.ts";
import { type VolumeMeasurement, VolumeStats } from "./health/volume-stats.ts";
import { type InlineProvisioner, InlineVolumes, isInline } from "./inline.ts";
import { Mounts } from "./mount/mounts.ts";
import { checkedPath, normalPath, resolveParents } from "./mount/paths.ts";
import { StagingMounts } from "./mount/staging-mounts.ts";
import { VolumePublishing } from "./publish.ts";
import type {
  Context,
  PublishRequest,
  StageRequest,
  UnpublishRequest,
  UnstageRequest,
  VolumeAtPath,
} from "./requests.ts";
import { VolumeStaging } from "./stage.ts";
import { Maintenance } from "./state/maintenance.ts";
import { OrphanedVolumes } from "./state/orphans.ts";
import { type DriverName, MountOwnership } from "./state/ownership.ts";
import { PathRestorer } from "./state/path-restorer.ts";
import { reconcile } from "./state/reconcile.ts";
import { type StageRecord, StageRecords } from "./state/stage-records.ts";

/** How long the beginning may take, in milliseconds: the node is not served before. */
const beginMs = 10_000;

/** How often it is seen to that staged volumes have all their ways, and that none is forgotten, in milliseconds. */
const careMs = 60_000;

/** What the node side needs from outside. */
export interface NodePorts {
  /** The names under which the kubelet knows this driver. */
  readonly drivers: readonly DriverName[];
  readonly runner: CommandRunner;
  /** The host's programs. */
  readonly host: CommandRunner;
  /** Flags for every mount of this volume: `node.mount.mount_flags` of its connection or of the main file. */
  readonly mountFlags: (volumeId: string) => Promise<readonly string[]>;
  readonly attachers: Attachers;
  readonly disks: Disks;
  /** What makes volumes that live with their pod, and the folder of their records, which must survive restarts of the machine. */
  readonly inline?: { readonly maker: InlineProvisioner; readonly folder: string } | undefined;
  /** The folder of the records; must survive restarts of the process. */
  readonly records: string;
  /** The mount table, `/proc/self/mountinfo` outside tests. */
  readonly mountinfo: string;
  /** Whether a server can be reached at all. */
  readonly answers: Answers;
  readonly health: HealthPorts;
}

/** How the health of volumes and storages is looked at. */
export interface HealthPorts {
  /** How far apart two looks are, in milliseconds; 0: only when somebody asks. */
  readonly everyMs: number;
  /** How long a cause must last, and be gone, in milliseconds. */
  readonly holdMs: number;
  /** Contexts of volumes that this node might get. */
  readonly elsewhere: () => Promise<readonly Context[]>;
}

/**
 * The volumes of this node: the node RPCs of CSI in plain values. Every method may be repeated after any failure.
 * All of them throw CsiError: "invalid-argument" for a missing or impossible argument, "aborted" while another operation on the
 * volume or path runs, "unavailable" and "deadline-exceeded" when the outcome is not known or a mount is busy.
 */
export class NodeVolumes {
  readonly #locks = new Locks();
  readonly #mounts: Mounts;
  readonly #records: StageRecords;
  readonly #ownership: MountOwnership;
  readonly #care: Maintenance;
  readonly #staging: VolumeStaging;
  readonly #publishing: VolumePublishing;
  readonly #inline: InlineVolumes | undefined;
  readonly #growing: VolumeExpansion;
  readonly #watching: VolumeHealthMonitor;
  readonly #measuring: VolumeStats;
  readonly #everyMs: number;
  #rounds: Rounds | undefined;

  /** Does no I/O. */
  constructor({
    drivers,
    runner,
    host,
    mountFlags,
    attachers,
    disks,
    inline,
    records,
    mountinfo,
    answers,
    health,
  }: NodePorts) {
    const turns = new Turns();
    this.#mounts = new Mounts(runner, host, mountinfo, records);
    this.#records = new StageRecords(records);
    this.#ownership = new MountOwnership(this.#records, drivers);
    this.#staging = new VolumeStaging(
      attachers,
      this.#mounts,
      this.#records,
      this.#ownership,
      new StagingMounts(this.#mounts, disks),
      turns,
      mountFlags,
    );
    this.#publishing = new VolumePublishing(attachers, this.#mounts, this.#records, this.#ownership, disks);
    this.#inline = inline && new InlineVolumes(inline.maker, this.#mounts, inline.folder);
    this.#growing = new VolumeExpansion(attachers, disks, turns);
    const storages = new StorageHealthMonitor(attachers, answers, health.holdMs);
    const watched = { mounts: this.#mounts, records: this.#records, ownership: this.#ownership, attachers, disks };
    this.#watching = new VolumeHealthMonitor(watched, storages, health.elsewhere, health.holdMs);
    this.#measuring = new VolumeStats(this.#mounts, disks, new UsageReader(runner), this.#watching);
    this.#everyMs = health.everyMs;
    this.#care = new Maintenance([
      new PathRestorer(attachers, this.#records, turns),
      new OrphanedVolumes(this.#mounts, this.#records, (request, call) => this.unstage(request, call)),
    ]);
  }

  /** To be called once, before anything else: what an ended process left is put right or logged, and staged volumes are looked after. Never throws. */
  async begin(log: Log): Promise<void> {
    await reconcile(this.#mounts, this.#records, log, AbortSignal.timeout(beginMs));
    this.#care.start(careMs, log);
    if (this.#everyMs === 0) return;
    this.#rounds = new Rounds(this.#everyMs, signal => this.#watching.run(log, signal));
    this.#rounds.start();
  }

  /** Ends what `begin` started. */
  end(): void {
    this.#care.stop();
    this.#rounds?.stop();
  }

  /** Also throws "already-exists", "failed-precondition" and "not-found" (CSI NodeStageVolume). */
  async stage(request: StageRequest, call: Call): Promise<void> {
    const stagingPath = checkedPath(request.stagingPath, "staging_target_path");
    await this.#hold(request.volumeId, stagingPath, () => this.#staging.stage({ ...request, stagingPath }, call));
  }

  /** Success when nothing is staged. Also throws "failed-precondition" while the volume is published (CSI NodeUnstageVolume). */
  async unstage(request: UnstageRequest, call: Call): Promise<void> {
    const stagingPath = checkedPath(request.stagingPath, "staging_target_path");
    await this.#hold(request.volumeId, stagingPath, () => this.#staging.unstage({ ...request, stagingPath }, call));
  }

  /** Also throws "already-exists" and "failed-precondition" (CSI NodePublishVolume). */
  async publish(request: PublishRequest, call: Call): Promise<void> {
    const targetPath = checkedPath(request.targetPath, "target_path");
    if (isInline(request.context))
      return await this.#hold(request.volumeId, targetPath, () =>
        this.#publishInline({ ...request, targetPath }, call),
      );
    if (!request.stagingPath) {
      throw new CsiError(
        "failed-precondition",
        `volume "${request.volumeId}": staging_target_path is missing; volumes are staged first`,
      );
    }
    const stagingPath = checkedPath(request.stagingPath, "staging_target_path");
    const checked = { ...request, targetPath, stagingPath };
    await this.#hold(request.volumeId, targetPath, () => this.#publishing.publish(checked, call));
  }

  /** Success when nothing is there. Removes the empty folder or file at the target, never its content (CSI NodeUnpublishVolume). */
  async unpublish(request: UnpublishRequest, call: Call): Promise<void> {
    const targetPath = checkedPath(request.targetPath, "target_path");
    const placed = { ...request, targetPath };
    await this.#hold(request.volumeId, targetPath, async () => {
      if (!(await this.#inline?.unpublish(placed, call))) await this.#publishing.unpublish(placed, call);
    });
  }

  /** Takes no lock. Throws "not-found" when the volume is not mounted at the path (CSI NodeGetVolumeStats). */
  async stats(request: VolumeAtPath, call: Call): Promise<VolumeMeasurement> {
    required(request.volumeId, "volume_id");
    const { place, table, record } = await this.#placed(request, call);
    return await this.#measuring.measure({ volumeId: request.volumeId, path: place, table, record }, call);
  }

  /**
   * What is wrong with a volume on this node. `path` may be empty: then the staged volume is looked at. Takes no lock. Throws
   * "not-found" when the volume is not known here (CSI NodeGetVolumeHealth).
   */
  async health({ volumeId, path }: VolumeAtPath, call: Call): Promise<readonly Condition[]> {
    required(volumeId, "volume_id");
    const record = await this.#records.find(volumeId, call.log);
    if (record) return this.#watching.see(volumeId, await this.#watching.findings(record, call.signal), call.log);
    if (path === "") throw new CsiError("not-found", `volume "${volumeId}" is not known on this node`);
    const { place, table } = await this.#placed({ volumeId, path }, call);
    return await this.#measuring.health({ volumeId, path: place, table, record }, call);
  }

  /** What is wrong with storages as this node sees them (CSI NodeGetStorageHealth). Looks at all volumes of the node. */
  async storageHealth(call: Call): Promise<readonly StorageHealth[]> {
    await this.#watching.run(call.log, call.signal);
    return this.#watching.view().storages;
  }

  /** What is known to be wrong at this moment; asks nobody. */
  healthView() {
    return this.#watching.view();
  }

  /**
   * Makes the node use the whole of a grown volume, by what was recorded at staging, never by what is found mounted.
   * Returns the bytes that it has now, undefined where the node need not do anything. Throws "not-found" when the volume is
   * not mounted at the path, and "failed-precondition" when it was staged by somebody else.
   */
  async expand(request: VolumeAtPath, least: bigint | undefined, call: Call): Promise<bigint | undefined> {
    const path = normalPath(request.path) ?? request.path;
    return await this.#hold(request.volumeId, path, async () => {
      const { record, place } = await this.#placed(request, call);
      if (!record) {
        throw new CsiError(
          "failed-precondition",
          `volume "${request.volumeId}" has no record on this node; publish it again, then expand it`,
        );
      }
      return await this.#growing.grow(record, place, least, call);
    });
  }

  async #publishInline(request: PublishRequest, call: Call): Promise<void> {
    if (this.#inline) return await this.#inline.publish(request, call);
    throw new CsiError("failed-precondition", `volume "${request.volumeId}": this node makes no volumes for pods`);
  }

  async #placed({ volumeId, path }: VolumeAtPath, call: Call) {
    required(path, "volume_path");
    const absent = new CsiError(
      "not-found",
      `volume "${volumeId}" is not mounted at ${JSON.stringify(path.slice(0, 200))}`,
    );
    const normal = normalPath(path);
    if (normal === undefined) throw absent;
    const table = await this.#mounts.table();
    const place = await resolveParents(normal, table, call.signal);
    const record: StageRecord | undefined = await this.#records.find(volumeId, call.log);
    if (!table.top(place) || !(await this.#ownership.owns(volumeId, record, place, table))) throw absent;
    return { place, table, record };
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

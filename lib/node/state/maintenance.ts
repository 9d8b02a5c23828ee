// lib/node/state: what csimux remembers of this node's volumes across restarts. record-folder.ts stores records,
// stage-records.ts those of staged volumes, written before anything is done; ownership.ts decides which mounts belong
// to which volume; maintenance.ts compares records with the node.

import { access } from "node:fs/promises";
import type { Call, Log } from "../../core/call.ts";
import { CsiError, errnoOf } from "../../core/errors.ts";
import type { Attacher } from "../attach/attacher.ts";
import { withTargetLock } from "../attach/attachers.ts";
import type { MountTable } from "../mount/mount-table.ts";
import type { NodeParts } from "../parts.ts";
import type { UnstageRequest } from "../requests.ts";
import { isKubeletMountPoint, stagingRootOf } from "./mount-points.ts";
import { mountPointsOf, namesPath, type StageRecord } from "./stage-records.ts";

/**
 * Reopens lost paths of mounted volumes: paths that the kernel and open-iscsi gave up during a network failure, and
 * paths that were down when the volume was staged. With multipath, they provide the disk's redundancy.
 */
export class PathRestorer {
  readonly #parts: NodeParts;
  /** The last error logged per volume, to avoid repeats. */
  readonly #failed = new Map<string, string>();

  constructor(parts: NodeParts) {
    this.#parts = parts;
  }

  /** Only volumes that share a target wait for each other. */
  async run(log: Log, signal: AbortSignal): Promise<void> {
    const call: Call = { id: "maintenance", signal, log, secrets: {} };
    await Promise.all((await this.#parts.records.all()).map(record => this.#volume(record, call)));
  }

  async #volume(record: StageRecord, call: Call): Promise<void> {
    const attacher = this.#parts.attachers.get(record.protocol);
    if (!attacher?.restore || !record.attached) return;
    const { volumeId } = record;
    try {
      const opened = await withTargetLock(this.#parts.targets, attacher, record.context, call, () =>
        this.#restore(record, attacher, call),
      );
      this.#failed.delete(volumeId);
      if (opened.length > 0) call.log.info("reopened lost paths of a staged volume", { volumeId, opened });
    } catch (error) {
      const reason = error instanceof CsiError ? error.message : "the time limit was reached";
      if (this.#failed.get(volumeId) === reason) return;
      this.#failed.set(volumeId, reason);
      call.log.warn("cannot reopen a lost path of a staged volume; retrying", { volumeId, reason });
    }
  }

  /**
   * Reads the record again: the volume may have been unstaged while this waited for the lock. A volume without mounts, as after a restart
   * of the machine or a failed unstaging, may be in use on another node by now: until it is staged here again, it gets no paths.
   */
  async #restore({ volumeId }: StageRecord, attacher: Attacher, call: Call): Promise<readonly string[]> {
    const record = await this.#parts.records.find(volumeId, call.log);
    if (!record?.attached || !isSeen(record, await this.#parts.mounts.table())) return [];
    return (await attacher.restore?.(record, call)) ?? [];
  }
}

/**
 * Unstages volumes that are no longer used: none of their mounts exists, and neither does the staging folder, which the
 * kubelet creates before staging and removes after unstaging. This happens after pods are deleted by force or the
 * kubelet's folder is emptied; otherwise their sessions would stay forever. As with every unstaging, a disk in use
 * stays attached. Nothing is concluded while the orchestrator's folder itself is not seen, as with a wrong hostPath of the pod.
 */
export class OrphanedVolumes {
  readonly #parts: NodeParts;
  readonly #unstage: (request: UnstageRequest, call: Call) => Promise<void>;
  /** Volumes found orphaned in the last run: a single run may fall between two steps of the kubelet. */
  #seen = new Set<string>();

  constructor(parts: NodeParts, unstage: (request: UnstageRequest, call: Call) => Promise<void>) {
    this.#parts = parts;
    this.#unstage = unstage;
  }

  async run(log: Log, signal: AbortSignal): Promise<void> {
    const seen = new Set<string>();
    for (const record of await this.#parts.records.all()) {
      if (!(await this.#isOrphan(record))) continue;
      seen.add(record.volumeId);
      if (this.#seen.has(record.volumeId)) await this.#remove(record, { id: "maintenance", signal, log, secrets: {} });
    }
    this.#seen = seen;
  }

  async #isOrphan(record: StageRecord): Promise<boolean> {
    const table = await this.#parts.mounts.table();
    if (isSeen(record, table)) return false;
    return (
      (await isAbsent(record.stagingPath)) === true && (await isAbsent(stagingRootOf(record.stagingPath))) === false
    );
  }

  async #remove({ volumeId, stagingPath }: StageRecord, call: Call): Promise<void> {
    try {
      await this.#unstage({ volumeId, stagingPath }, call);
      call.log.info("unstaged an orphaned volume", { volumeId });
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      call.log.warn("cannot unstage an orphaned volume", { volumeId, reason: error.message });
    }
  }
}

/** Whether nothing is at a path; undefined if that cannot be said. */
const isAbsent = async (path: string): Promise<boolean | undefined> =>
  await access(path).then(
    () => false,
    cause => (errnoOf(cause) === "ENOENT" ? true : undefined),
  );

const isSeen = (record: StageRecord, table: MountTable): boolean =>
  mountPointsOf(record).some(path => table.layers(path) > 0);

/**
 * Runs before a new process serves calls: removes preparations of mounts that an earlier process left, and logs
 * differences between records and mounts. Does not touch volumes, because the kubelet repeats the calls that it needs.
 * Never throws.
 */
export async function reconcile({ mounts, records }: NodeParts, log: Log, signal: AbortSignal): Promise<void> {
  try {
    const cleared = await mounts.removePreparations(signal);
    if (cleared > 0) log.info("removed prepared mounts of an earlier process", { count: cleared });
    const table = await mounts.table();
    const all = await records.all();
    const gone = all.filter(record => !isSeen(record, table)).map(({ volumeId }) => volumeId);
    const unknown = table.points().filter(at => isStaging(at) && !all.some(record => namesPath(record, at)));
    log.info("volumes on this node", { recorded: all.length });
    if (gone.length > 0) log.info("recorded volumes are not mounted, as after a reboot", { volumes: gone });
    if (unknown.length > 0)
      log.info("CSI mounts without a record: of other drivers, or from before csimux", { unknown });
  } catch (error) {
    const reason = error instanceof CsiError ? error.message : "unknown";
    log.warn("cannot compare records and mounts", { reason });
  }
}

const isStaging = (at: string): boolean => isKubeletMountPoint(at) && at.includes("/plugins/kubernetes.io/csi/");

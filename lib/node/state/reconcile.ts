import type { Log } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { isKubeletMountPoint } from "../mount/kubelet.ts";
import type { MountTable } from "../mount/mount-table.ts";
import type { Mounts } from "../mount/mounts.ts";
import { namesPath, type StageRecord, type StageRecords, stagedAt } from "./stage-records.ts";

const isSeen = (record: StageRecord, table: MountTable): boolean =>
  table.layers(stagedAt(record)) > 0 || record.published.some(({ target }) => table.layers(target) > 0);

/**
 * Runs before a new process serves calls: removes preparations of mounts that an earlier process left, and logs
 * differences between records and mounts. Does not touch volumes, because the kubelet repeats the calls that it needs.
 * Never throws.
 */
export async function reconcile(mounts: Mounts, records: StageRecords, log: Log, signal: AbortSignal): Promise<void> {
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

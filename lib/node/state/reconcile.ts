import type { Log } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { isKubeletMountPoint } from "../mount/kubelet.ts";
import type { MountTable } from "../mount/mount-table.ts";
import type { Mounts } from "../mount/mounts.ts";
import { namesPath, type StageRecord, type StageRecords, stagedAt } from "./stage-records.ts";

const isSeen = (record: StageRecord, table: MountTable): boolean =>
  table.layers(stagedAt(record)) > 0 || record.published.some(({ target }) => table.layers(target) > 0);

/**
 * What a new process does before it serves: removes what an ended one left of preparing mounts, which nobody else looks at, and
 * logs where records and mounts differ. Volumes are left to the kubelet, which repeats what it wants. Never throws.
 */
export async function reconcile(mounts: Mounts, records: StageRecords, log: Log, signal: AbortSignal): Promise<void> {
  try {
    const cleared = await mounts.removePreparations(signal);
    if (cleared > 0) log.info("removed mounts that an ended process had in preparation", { count: cleared });
    const table = await mounts.table();
    const all = await records.all();
    const gone = all.filter(record => !isSeen(record, table)).map(({ volumeId }) => volumeId);
    const unknown = table.points().filter(at => isStaging(at) && !all.some(record => namesPath(record, at)));
    log.info("volumes on this node", { recorded: all.length });
    if (gone.length > 0) log.info("volumes with a record are not mounted, as after a reboot", { volumes: gone });
    if (unknown.length > 0)
      log.info("mounts of CSI volumes without a record here: of other drivers, or older", { unknown });
  } catch (error) {
    const reason = error instanceof CsiError ? error.message : "unknown";
    log.warn("records and mounts could not be compared", { reason });
  }
}

const isStaging = (at: string): boolean => isKubeletMountPoint(at) && at.includes("/plugins/kubernetes.io/csi/");

import { CsiError } from "../core/errors.ts";
import type { MountTable } from "./mount-table.ts";
import type { StageRecord } from "./records.ts";

/** Where a kubelet puts what CSI drivers mount; nobody else mounts there. */
const ofKubelet = /\/(?:pods\/[^/]+\/volumes\/kubernetes\.io~csi\/[^/]+\/mount|plugins\/kubernetes\.io\/csi\/.+)$/;

/** Whether a real place is known to be this volume's: by its record, or as a kubelet's path when the record was lost. */
export const isOwn = (record: StageRecord | undefined, place: string): boolean =>
  record?.stagingPath === place || isTarget(record, place) || ofKubelet.test(place);

/** Whether the record says that the volume was published at this real place. */
export const isTarget = (record: StageRecord | undefined, place: string): boolean =>
  record?.published.some(published => published.target === place) ?? false;

/** Throws "failed-precondition" when something is mounted at a place that is not known to be this volume's: it stays. */
export function refuseForeign(volumeId: string, place: string, table: MountTable): void {
  if (table.layers(place) === 0) return;
  const what = `the mount at ${place} was not made for volume "${volumeId}"`;
  throw new CsiError(
    "failed-precondition",
    `${what} as far as csimux knows; it stays, unmount it by hand if it is to go`,
  );
}

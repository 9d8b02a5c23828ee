import { CsiError } from "../core/errors.ts";
import { parseHandle } from "../core/handle.ts";
import { isPlaceOfKubelet, volumeOfKubelet } from "./kubelet.ts";
import type { MountTable } from "./mount-table.ts";
import { claims, type Records, type StageRecord, stagedAt } from "./records.ts";

/**
 * Whether a real place is this volume's to unmount. Its record must name the place, and where the mount there is not what was
 * recorded (a source can be renamed), no other record may name it: an interrupted call leaves a claim on a place that
 * another volume can have taken since. Without a record the kubelet's own file must name the volume that is mounted, if no other
 * record names the place.
 */
export async function isOwn(
  volumeId: string,
  record: StageRecord | undefined,
  place: string,
  table: MountTable,
  records: Records,
): Promise<boolean> {
  if (claims(record, place)) {
    if (table.layers(place) === 0) return true;
    if (record?.shows && table.shows(place, record.shows)) return true;
  } else if (table.layers(place) === 0) {
    if (!isPlaceOfKubelet(place)) return false;
  } else if (!isSame(volumeId, await volumeOfKubelet(place))) return false;
  return !(await records.claimedByOther(place, volumeId));
}

/**
 * Whether the kubelet means this volume. Under the name of a driver that was taken over its ids have no prefix; csimux keeps the
 * volume under the whole handle.
 */
const isSame = (volumeId: string, told: string | undefined): boolean =>
  told !== undefined && (told === volumeId || told === parseHandle(volumeId, "volume")?.id);

/** The record when its volume is staged in truth; otherwise it is what an interrupted call or a reboot left. */
export async function live(
  record: StageRecord | undefined,
  table: MountTable,
  records: Records,
): Promise<StageRecord | undefined> {
  if (!record || table.layers(stagedAt(record)) === 0) return undefined;
  return (await isOwn(record.volumeId, record, stagedAt(record), table, records)) ? record : undefined;
}

/** Throws "failed-precondition" when something is mounted at a place that is not known to be this volume's: it stays. */
export function refuseForeign(volumeId: string, place: string, table: MountTable): void {
  if (table.layers(place) === 0) return;
  const what = `the mount at ${place} was not made for volume "${volumeId}"`;
  throw new CsiError(
    "failed-precondition",
    `${what} as far as csimux knows; it stays, unmount it by hand if it is to go`,
  );
}

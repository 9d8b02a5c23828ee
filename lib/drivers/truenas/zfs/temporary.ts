import { stagingOf } from "../../zfs/names.ts";
import { bytesOf, shownValue } from "../../zfs/properties.ts";
import { type NewDataset, ZfsError } from "../../zfs/zfs.ts";
import type { DatasetApi } from "./reading.ts";
import { copyDestroyed, nameFreed } from "./removal.ts";
import { isTaken } from "./snapshots.ts";

/**
 * Takes the temporary snapshot of a clone. One of an earlier attempt, which shows the source as it was then, makes way with its clone. Throws
 * "changed" if the source has grown since it was read: ZFS would cut off the clone.
 */
export async function takenAfresh(
  on: DatasetApi,
  { name, volsize }: Pick<NewDataset, "name" | "volsize">,
  snapshot: string,
  signal: AbortSignal,
): Promise<void> {
  await taken(on, name, snapshot, signal);
  if (volsize === undefined) return;
  const size = shownValue(await on.reading.one(snapshot, ["volsize"], signal), "volsize");
  if (bytesOf(size) > volsize)
    throw new ZfsError("changed", `another call has expanded the volume of ${snapshot} to ${size} bytes`);
}

async function taken(on: DatasetApi, clone: string, snapshot: string, signal: AbortSignal): Promise<void> {
  const take = () => isTaken(on.api, snapshot, () => on.reading.one(snapshot, ["type"], signal), signal);
  if (await take()) return;
  const staging = stagingOf(clone);
  const left = await on.reading.one(staging, ["origin"], signal);
  if (left?.properties.get("origin")?.value === snapshot) await copyDestroyed(on, staging, signal);
  await nameFreed(on, snapshot, signal);
  if (!(await take())) throw new ZfsError("changed", `another call has taken ${snapshot}`);
}

import { stagingOf } from "../../zfs/names.ts";
import { ZfsError } from "../../zfs/zfs.ts";
import type { DatasetApi } from "./reading.ts";
import { copyDestroyed, nameFreed } from "./removal.ts";
import { isTaken } from "./snapshots.ts";

/** Takes the temporary snapshot of a clone. One of an earlier attempt, which shows the source as it was then, makes way with its clone. */
export async function takenAfresh(on: DatasetApi, clone: string, snapshot: string, signal: AbortSignal): Promise<void> {
  const take = () => isTaken(on.api, snapshot, () => on.reading.one(snapshot, ["type"], signal), signal);
  if (await take()) return;
  const staging = stagingOf(clone);
  const left = await on.reading.one(staging, ["origin"], signal);
  if (left?.properties.get("origin")?.value === snapshot) await copyDestroyed(on, staging, signal);
  await nameFreed(on, snapshot, signal);
  if (!(await take())) throw new ZfsError("changed", `another call has taken ${snapshot}`);
}

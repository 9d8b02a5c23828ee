import type { Protocol } from "../../../core/access.ts";
import {
  datasetOf,
  discardedName,
  isDiscarded,
  isStaging,
  isTemporary,
  poolOf,
  snapshotNameOf,
} from "../../zfs/names.ts";
import { bytesOf, ownValue, property, shownValue } from "../../zfs/properties.ts";
import {
  type DestroyOptions,
  type Inspected,
  notOurCopy,
  type RenameOptions,
  type Zfs,
  ZfsError,
} from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { isMissing } from "../api-error.ts";
import { snapshotService, whyNot, withRename, withSnapshotResources, zfsError } from "./queries.ts";
import type { DatasetApi } from "./reading.ts";
import { isWritten } from "./replication.ts";

// Never recursively: TrueNAS 26 would destroy clones of snapshots, too, and reports success if it fails.

/** Whether it was done; false if what it is about does not exist. */
async function isDone(api: Api, method: string, params: readonly unknown[], signal: AbortSignal): Promise<boolean> {
  try {
    await api.call(method, params, signal);
    return true;
  } catch (error) {
    if (!isMissing(error) && whyNot(error) !== "absent") throw zfsError(error);
    return false;
  }
}

/** Throws for a destroyed dataset or snapshot that exists, and "pool-absent" if its pool does not: it may only have been exported. */
async function proveGone({ reading }: DatasetApi, name: string, method: string, signal: AbortSignal): Promise<void> {
  const found = await reading.read({ names: [poolOf(name), name], properties: ["type"] }, signal);
  if (found.has(name)) throw new ZfsError("busy", `${name} still exists after ${method}`);
}

/** Gives a snapshot whose destruction is deferred another name, if it still exists. One with another guid was taken since then. */
async function discard({ api, reading }: DatasetApi, name: string, signal: AbortSignal, guid?: string): Promise<void> {
  const waiting = await reading.one(name, ["guid"], signal);
  const found = waiting && shownValue(waiting, "guid");
  if (!waiting || (guid !== undefined && found !== guid)) return;
  const to = `${datasetOf(name)}@${discardedName(found ?? "")}`;
  const { number } = await api.version(signal);
  if (number >= withSnapshotResources)
    return void (await isDone(api, "zfs.resource.snapshot.rename", [{ current_name: name, new_name: to }], signal));
  await isDone(api, "pool.snapshot.rename", [name, { new_name: to, force: true }], signal);
}

async function destroySnapshot(
  on: DatasetApi,
  name: string,
  defer: boolean,
  signal: AbortSignal,
  guid?: string,
): Promise<void> {
  const { number } = await on.api.version(signal);
  const isOld = number < withSnapshotResources;
  const method = isOld ? `${snapshotService(number)}.delete` : "zfs.resource.snapshot.destroy";
  const params = isOld ? [name, { defer }] : [{ path: name, defer }];
  if (!(await isDone(on.api, method, params, signal))) return proveGone(on, name, method, signal);
  if (isOld) return;
  // 26 does not answer that the destruction is deferred.
  if (defer && !isTemporary(snapshotNameOf(name)) && !isDiscarded(name)) await discard(on, name, signal, guid);
}

/** As Zfs.freeName. Before 25.10 the API cannot rename a snapshot, so one with clones or holds is refused. */
export async function nameFreed(on: DatasetApi, name: string, signal: AbortSignal): Promise<void> {
  try {
    return await destroySnapshot(on, name, false, signal);
  } catch (error) {
    if (!(error instanceof ZfsError && ["dependents", "held"].includes(error.failure))) throw error;
    if ((await on.api.version(signal)).number < withRename)
      throw new ZfsError(error.failure, `${name} shows its volume as it was earlier, and must go: ${error.message}`);
  }
  await destroySnapshot(on, name, true, signal);
  await discard(on, name, signal);
}

/**
 * As Zfs.takesShares. Up to 25.10 the server deletes the enabled shares of a path before its dataset (do_delete in plugins/pool_/dataset.py and
 * common/attachment of TS-24.10.2.4 to TS-25.10.6); a disabled one stays, as after a deletion in its web interface.
 */
export const sharesTaken = async ({ api }: DatasetApi, protocol: Protocol, signal: AbortSignal): Promise<boolean> =>
  protocol === "nfs" && (await api.version(signal)).number < withSnapshotResources;

async function destroyDataset(on: DatasetApi, name: string, signal: AbortSignal): Promise<void> {
  const { number } = await on.api.version(signal);
  const isOld = number < withSnapshotResources;
  const method = isOld ? "pool.dataset.delete" : "zfs.resource.destroy";
  const params = isOld ? [name, { recursive: false, force: true }] : [{ path: name, recursive: false }];
  if (!(await isDone(on.api, method, params, signal))) return proveGone(on, name, method, signal);
  // Up to 25.10 the answer follows the exit code of zfs destroy (plugins/zfs_/dataset.py); the one of 26 proves nothing.
  if (!isOld && (await on.reading.one(name, ["type"], signal)))
    throw new ZfsError("busy", `${name} still exists after ${method}`);
}

/**
 * Throws "changed" for what is not what the caller has inspected. The API has no condition for a change, so this is asked right before it. Before
 * 25.10 datasets show no guid.
 */
export async function proven(
  { api, reading }: DatasetApi,
  name: string,
  { guid, unfinished = false, still, grows, fresh }: Inspected,
  signal: AbortSignal,
): Promise<void> {
  if (fresh || (!guid && !unfinished && !still && !grows)) return;
  const asked = [...(unfinished ? [property.success] : []), ...[still, grows].flatMap(each => each?.property ?? [])];
  const entry = await reading.one(name, ["guid", ...asked], signal);
  if (!entry) return;
  const isOther = guid && (shownValue(entry, "guid") ?? guid) !== guid;
  // From 25.10 on the API does not show whether a value is inherited, so one that the parent has, too, may be the volume's own.
  const read = (await api.version(signal)).number < withRename ? ownValue : shownValue;
  const isStill = still === undefined || shownValue(entry, still.property) === still.value;
  // The server refuses to shrink a zvol, but not a quota.
  const isLarger = grows !== undefined && bytesOf(shownValue(entry, grows.property)) > grows.bytes;
  if (isOther || !isStill || isLarger || (unfinished && read(entry, property.success) === "true"))
    throw new ZfsError("changed", `${name} was changed by another call`);
}

/**
 * As Zfs.destroy. Snapshots first: the server refuses a dataset with snapshots only after it has deleted the shares (25.10). What the caller has
 * inspected is proved before each of them and before the dataset, which another controller may have finished while they were destroyed.
 */
export async function destroyed(on: DatasetApi, name: string, how: DestroyOptions, signal: AbortSignal): Promise<void> {
  const { deferred, snapshots = [] } = how;
  const isSnapshot = name.includes("@");
  // Between its attempts a job holds nothing open, and would make the copy again.
  if (!isSnapshot && isStaging(name) && (await isWritten(on.api, name, signal)))
    throw new ZfsError("busy", `a job that cannot be aborted still copies to ${name}`);
  for (const each of snapshots) {
    await proven(on, name, how, signal);
    await destroySnapshot(on, `${name}@${each}`, false, signal);
  }
  await proven(on, name, how, signal);
  await (isSnapshot
    ? destroySnapshot(on, name, deferred === true, signal, how.guid)
    : destroyDataset(on, name, signal));
}

/** As Zfs.rename with RenameOptions. The server does not say whether a file system is in use. */
export async function renamedWith(
  zfs: Pick<Zfs, "set">,
  rename: (of: Inspected) => Promise<void>,
  from: string,
  to: string,
  { guid, before, after }: RenameOptions,
  signal: AbortSignal,
): Promise<void> {
  await zfs.set(from, before, signal, { guid });
  const undone = Object.fromEntries(Object.keys(before).map(key => [key, undefined]));
  await rename({ guid }).catch(async (error: unknown) => {
    // If this fails too, the next attempt sets the same values.
    await zfs.set(from, undone, signal, { guid }).catch(() => {});
    throw error;
  });
  await zfs.set(to, after, signal);
}

/** Destroys a copy that csimux made for itself, with its snapshots. */
export async function copyDestroyed(on: DatasetApi, dataset: string, signal: AbortSignal): Promise<void> {
  const types = ["filesystem", "volume", "snapshot"] as const;
  const below = await on.reading.below(dataset, types, ["type", "guid", "clones"], 1, signal);
  const child = below.find(({ name }) => !name.includes("@") && name !== dataset);
  if (child) throw new ZfsError("dependents", `${dataset} has the child ${child.name}`);
  const cloned = below.find(({ properties }) => properties.has("clones"));
  if (cloned)
    throw new ZfsError("dependents", `${cloned.name} has the clone ${cloned.properties.get("clones")?.value}`);
  const snapshots = below.flatMap(({ name }) => (name.includes("@") ? [snapshotNameOf(name)] : []));
  const guid = shownValue(
    below.find(({ name }) => name === dataset),
    "guid",
  );
  await destroyed(on, dataset, { guid, snapshots }, signal).catch((error: unknown) => {
    if (whyNot(error) !== "dependents") throw error;
    throw new ZfsError("changed", `another call has made ${dataset} again`, { cause: error });
  });
}

/** Destroys the rest of an interrupted clone of this snapshot. Throws "used" for what nothing proves to be that. */
export async function leftDestroyed(
  on: DatasetApi,
  staging: string,
  snapshot: string,
  signal: AbortSignal,
): Promise<void> {
  const left = await on.reading.one(staging, ["origin", property.managed], signal);
  const isClone = left?.properties.get("origin")?.value === snapshot;
  if (left && !isClone && ownValue(left, property.managed) === undefined) throw notOurCopy(staging);
  if (left) await copyDestroyed(on, staging, signal);
}

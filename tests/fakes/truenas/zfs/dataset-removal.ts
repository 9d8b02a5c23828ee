import { completed } from "../facts/complete.ts";
import { CallError, ezfsBusy, Invalid } from "../failure.ts";
import { property } from "../properties.ts";
import { type Dataset, type Nas, type Row, removed, type Snapshot } from "../state.ts";
import { existing, parentOf } from "./datasets.ts";
import { noSafetyChecks } from "./words.ts";

/** How datasets disappear, or change their names and origins. */

export const snapshotsOf = (nas: Nas, name: string): readonly Snapshot[] =>
  Object.values(nas.state.snapshots).filter(({ dataset }) => dataset === name);
const childrenOf = (nas: Nas, name: string): readonly Dataset[] =>
  Object.values(nas.state.datasets).filter(each => each.name.startsWith(`${name}/`));
/** The datasets that were cloned from a snapshot. */
export const clonesOf = (nas: Nas, snapshot: string): readonly Dataset[] =>
  Object.values(nas.state.datasets).filter(({ origin }) => origin === snapshot);

/** Only enabled shares go (`delegate.query(mountpoint, True)`, the same place; get_query_filters in common/attachment of TS-25.10.6). */
function unshared(nas: Nas, name: string): void {
  const path = `/mnt/${name}`;
  const isOf = (row: Row) => row["path"] === path || (row["paths"] as readonly string[] | undefined)?.[0] === path;
  for (const table of ["nfs", "smb"] as const) removed(nas, table, row => isOf(row) && row["enabled"] !== false);
  if (nas.number >= 2410) unexported(nas, `zvol/${name}`);
}

/**
 * The extent of a zvol goes, with its targets that have no other, and its namespace (plugins/iscsi_/fs_attachment_delegate.py and
 * plugins/nvmet/fs_attachment_delegate.py of TS-24.10.2.4 and TS-25.10.6).
 */
function unexported(nas: Nas, disk: string): void {
  const extents = nas.state.tables.extent.filter(row => row["disk"] === disk).map(({ id }) => id);
  const links = nas.state.tables.targetextent.filter(row => extents.includes(Number(row["extent"])));
  removed(nas, "targetextent", row => links.includes(row));
  removed(nas, "extent", ({ id }) => extents.includes(id));
  const isLinked = (id: number) => nas.state.tables.targetextent.some(row => row["target"] === id);
  removed(nas, "target", ({ id }) => links.some(link => link["target"] === id) && !isLinked(id));
  removed(nas, "nvmetNamespace", row => row["device_path"] === disk);
}

/** Takes a dataset away, with its shares, and the snapshot that only waited for it. */
export function drop(nas: Nas, name: string): void {
  const { origin } = nas.state.datasets[name] ?? {};
  delete nas.state.datasets[name];
  unshared(nas, name);
  const waiting = origin === undefined ? undefined : nas.state.snapshots[origin];
  if (origin !== undefined && waiting?.deferred && clonesOf(nas, origin).length === 0 && waiting.holds === 0)
    delete nas.state.snapshots[origin];
}

export function remove(nas: Nas, [id, options]: readonly unknown[]): unknown {
  const { recursive } = completed<{ readonly recursive: boolean }>(nas, "pool.dataset.delete", options, 1);
  const name = String(id);
  if (nas.number >= 2600) return removeOn26(nas, name, recursive);
  const child = recursive ? undefined : childrenOf(nas, name)[0];
  if (child)
    throw new CallError("ENOTEMPTY", `Failed to delete dataset: cannot destroy '${name}': filesystem has children`);
  const partly = existing(nas, name);
  // `zfs recv -A` comes before, and takes with it what a stream has made (delete in plugins/zfs_/dataset.py of TS-24.10.2.4 to TS-25.10.6);
  // while the stream is received, the dataset is busy.
  if (partly.partOf && !nas.busy.has(name)) {
    if (snapshotsOf(nas, name).length === 0) {
      drop(nas, name);
      return true;
    }
    delete partly.partOf;
  }
  // Shares go first, whatever becomes of the dataset (do_delete in plugins/pool_/dataset.py of TS-24.10.2.4 to TS-25.10.6).
  unshared(nas, name);
  const why = obstacle(nas, name, recursive);
  if (why) throw why;
  for (const each of [...childrenOf(nas, name).map(child => child.name), name]) {
    for (const snapshot of snapshotsOf(nas, each)) delete nas.state.snapshots[`${each}@${snapshot.name}`];
    drop(nas, each);
  }
  return true;
}

/** What `zfs destroy` says; only "busy" has a number of its own (delete() in plugins/zfs_/dataset.py of TS-24.10.2.4 to TS-25.10.6). */
function obstacle(nas: Nas, name: string, recursive: boolean): Error | undefined {
  if (nas.busy.has(name))
    return new CallError("EBUSY", `Failed to delete dataset: cannot destroy '${name}': dataset is busy`);
  const children = childrenOf(nas, name);
  const all = [name, ...children.map(child => child.name)];
  const snapshots = all.flatMap(each => snapshotsOf(nas, each));
  if (!recursive && snapshots.length > 0)
    return new CallError("EFAULT", `Failed to delete dataset: cannot destroy '${name}': filesystem has children`);
  const cloned = snapshots.some(each => clonesOf(nas, `${each.dataset}@${each.name}`).length > 0);
  return cloned
    ? new CallError("EFAULT", `Failed to delete dataset: cannot destroy '${name}': filesystem has dependent clones`)
    : undefined;
}

/**
 * 26: recursion destroys the clones of other volumes too, and a destruction that ZFS has refused is reported as done, since what
 * destroy_impl() answers is dropped (do_delete in plugins/pool_/dataset.py of TS-26.0.0-BETA.3).
 */
function removeOn26(nas: Nas, name: string, recursive: boolean): unknown {
  if (!nas.state.datasets[name]) throw new CallError("EINVAL", `'${name}' not found`, "ZFSPathNotFoundException");
  if (!recursive && childrenOf(nas, name).length > 0)
    throw new CallError("ENOTEMPTY", `Failed to delete dataset: cannot destroy '${name}': filesystem has children`);
  unshared(nas, name);
  if (recursive && !nas.busy.has(name)) cascade(nas, name);
  if (!recursive) refuseFamily(nas, name);
  if (!recursive && !nas.busy.has(name)) drop(nas, name);
  return true;
}

export function cascade(nas: Nas, name: string): void {
  for (const child of childrenOf(nas, name)) if (nas.state.datasets[child.name]) cascade(nas, child.name);
  for (const snapshot of snapshotsOf(nas, name)) {
    const id = `${name}@${snapshot.name}`;
    for (const clone of clonesOf(nas, id)) cascade(nas, clone.name);
    delete nas.state.snapshots[id];
  }
  drop(nas, name);
}

/** Refuses what has children or snapshots (destroy_impl() in plugins/zfs/resource_crud.py of TS-26.0.0-BETA.3). */
function refuseFamily(nas: Nas, name: string): void {
  const what =
    childrenOf(nas, name).length > 0 ? "children" : snapshotsOf(nas, name).length > 0 ? "snapshots" : undefined;
  const message = `'${name}' has ${what}. Set recursive=True to remove them.`;
  if (what !== undefined) throw new Invalid(["zfs.resource.destroy", message, 39]);
}

/**
 * 26: zfs.resource.destroy without recursion. It is unmounted without force, and the refusal of ZFS is a validation error with the code
 * of libzfs (plugins/zfs/destroy_impl.py and resource_crud.py of TS-26.0.0-BETA.3; words: error.c of truenas_pylibzfs).
 */
export function destroyed(nas: Nas, name: string): void {
  refuseFamily(nas, name);
  const busy = `Failed to destroy '${name}': [EZFS_BUSY]: cannot destroy '${name}': dataset is busy`;
  if (nas.busy.has(name)) throw new Invalid(["zfs.resource.destroy", busy, ezfsBusy]);
  drop(nas, name);
}

/**
 * Up to 25.10 what is in the way is EFAULT and words (rename() in plugins/zfs_/dataset_actions.py of TS-25.10.6), on 26 it has a number
 * (plugins/zfs/resource_crud.py of TS-26.0.0-BETA.3).
 */
export function rename(nas: Nas, [id, data]: readonly unknown[]): unknown {
  const { new_name: to, force } = completed<{ readonly new_name: string; readonly force: boolean }>(
    nas,
    "pool.dataset.rename",
    data,
    1,
  );
  const from = existing(nas, String(id)).name;
  if (!force) throw new Invalid(["pool.dataset.rename.force", noSafetyChecks, 22]);
  const refused = (words: string) => new CallError("EFAULT", `Failed to rename dataset: ${words}`);
  if (nas.state.datasets[to])
    throw nas.number >= 2600
      ? new Invalid(["zfs.resource.rename", `'${to}' already exists`, 17])
      : refused(`cannot rename '${from}': dataset already exists`);
  const missing = `cannot create '${to}': parent does not exist`;
  if (!nas.state.datasets[parentOf(to)])
    throw nas.number >= 2600 ? new CallError("EINVAL", `[EZFS_NOENT]: ${missing}`, "ZFSException") : refused(missing);
  const moved = (name: string): string =>
    name === from || /^[/@]/.test(name.slice(from.length)) ? `${to}${name.slice(from.length)}` : name;
  for (const each of [existing(nas, from), ...childrenOf(nas, from)]) {
    // The database keeps keys by names, and no rename changes those (a TODO in change_key of dataset_encryption_operations.py of TS-25.10.6).
    if (property(nas, each, "encryptionroot").raw === each.name) each.keyLost = true;
    delete nas.state.datasets[each.name];
    each.name = moved(each.name);
    nas.state.datasets[each.name] = each;
  }
  for (const [key, snapshot] of Object.entries(nas.state.snapshots).filter(
    ([key]) => key.startsWith(from) && moved(key) !== key,
  )) {
    delete nas.state.snapshots[key];
    snapshot.dataset = moved(snapshot.dataset);
    nas.state.snapshots[moved(key)] = snapshot;
    for (const clone of clonesOf(nas, key)) clone.origin = moved(key);
  }
  return null;
}

/**
 * zfs-promote(8) of OpenZFS 2.3; refusals: promote in plugins/pool_/dataset.py of TS-24.10.2.4 and TS-25.10.6, plugins/zfs/resource_crud.py of
 * TS-26.0.0-BETA.3.
 */
export function promote(nas: Nas, [id]: readonly unknown[]): unknown {
  const is26 = nas.number >= 2600;
  const dataset = nas.state.datasets[String(id)];
  if (!dataset && is26) throw new Invalid(["zfs.resource.promote", `'${id}' not found`, 2]);
  if (!dataset) throw new CallError("ENOENT", `Dataset "${id}" does not exist.`);
  const origin = dataset.origin === undefined ? undefined : nas.state.snapshots[dataset.origin];
  if (!origin && is26) throw new Invalid(["zfs.resource.promote", `'${id}' is ineligible for promotion.`, 22]);
  if (!origin) throw new CallError("EBADMSG", "Only cloned datasets can be promoted.");
  const old = origin.dataset;
  for (const snapshot of snapshotsOf(nas, old).filter(each => each.createtxg <= origin.createtxg)) {
    delete nas.state.snapshots[`${old}@${snapshot.name}`];
    for (const clone of clonesOf(nas, `${old}@${snapshot.name}`)) clone.origin = `${dataset.name}@${snapshot.name}`;
    nas.state.snapshots[`${dataset.name}@${snapshot.name}`] = { ...snapshot, dataset: dataset.name };
  }
  const base = nas.state.datasets[old];
  delete dataset.origin;
  if (base) base.origin = `${dataset.name}@${origin.name}`;
  return null;
}

import { completed } from "../facts/complete.ts";
import { CallError, Invalid } from "../failure.ts";
import { shown, userProperties } from "../properties.ts";
import { type QueryOptions, queried } from "../query.ts";
import { type Nas, nextTxg, type Snapshot } from "../state.ts";
import { clonesOf } from "./dataset-removal.ts";
import { existing, userSource } from "./datasets.ts";
import { noSafetyChecks } from "./words.ts";

/**
 * zfs.snapshot.*, pool.snapshot.* and zfs.resource.snapshot.*: three generations of the same (plugins/zfs.py of TN-12.0-U8.1 to
 * TS-22.12.4.2, plugins/zfs_/snapshot.py and snapshot_actions.py of TS-23.10.2 to TS-25.10.6, plugins/pool_/snapshot.py and plugins/zfs/snapshot_crud.py of TS-26.0.0-BETA.3).
 * pool.dataset.destroy_snapshots is left out: csimux names each snapshot that it destroys, and calls it nowhere.
 */

export const nameOf = ({ dataset, name }: Snapshot): string => `${dataset}@${name}`;

function present(nas: Nas, id: string): Snapshot {
  const snapshot = nas.state.snapshots[id];
  if (snapshot) return snapshot;
  throw new Invalid([null, `Snapshot ${id} not found`, 2]);
}

/** Makes a snapshot of what the dataset holds now. */
export function taken(nas: Nas, dataset: string, name: string, user: Record<string, string>): Snapshot {
  const source = existing(nas, dataset);
  const txg = nextTxg(nas);
  const snapshot: Snapshot = {
    dataset,
    name,
    user: { ...user },
    guid: String(10_000 + txg),
    createtxg: txg,
    creation: nas.now(),
    ...(source.native["volsize"] === undefined ? {} : { volsize: source.native["volsize"] }),
    ...(source.content === undefined ? {} : { content: source.content }),
    holds: 0,
    deferred: false,
  };
  nas.state.snapshots[nameOf(snapshot)] = snapshot;
  return snapshot;
}

export function rawOf(nas: Nas, snapshot: Snapshot): Readonly<Record<string, string>> {
  const referenced = String(Math.max(98_304, (snapshot.content ?? "").length));
  return {
    clones: clonesOf(nas, nameOf(snapshot))
      .map(({ name }) => name)
      .join(","),
    creation: String(snapshot.creation),
    createtxg: String(snapshot.createtxg),
    defer_destroy: snapshot.deferred ? "on" : "off",
    guid: snapshot.guid,
    logicalreferenced: referenced,
    referenced,
    used: "0",
    userrefs: String(snapshot.holds),
    ...(snapshot.volsize === undefined ? {} : { volsize: snapshot.volsize }),
  };
}

/** Properties of snapshots that 26 never answers. */
export const hidden26 = new Set(["clones", "defer_destroy", "userrefs"]);

/** A snapshot's own user properties over those of its dataset (zfsprops(7)). */
export const userOf = (nas: Nas, snapshot: Snapshot): Readonly<Record<string, string>> => {
  const inherited = Object.entries(userProperties(nas, existing(nas, snapshot.dataset)));
  return { ...Object.fromEntries(inherited.map(([key, [value]]) => [key, value])), ...snapshot.user };
};

function entry(nas: Nas, snapshot: Snapshot, extra: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const withUser = nas.number < 2600 || extra["retention"] === true;
  const plain = (key: string, raw: string, source: string) => {
    const { source_info: _, ...shape } = shown(key, raw, source);
    return shape;
  };
  // Those that are asked for, all for an empty list; up to 25.10 (_snapshots_snaplist_arg in libzfs.pyx of truenas/py-libzfs at TS-24.10.2.4).
  const asked = (extra["properties"] ?? []) as readonly string[];
  const isShown = (key: string): boolean =>
    nas.number < 2600 ? asked.length === 0 || asked.includes(key) : !hidden26.has(key);
  const listed = Object.entries(rawOf(nas, snapshot)).filter(([key]) => isShown(key));
  const native = listed.map(([key, raw]) => [key, plain(key, raw, "NONE")]);
  const user = Object.entries(withUser ? userOf(nas, snapshot) : {}).map(([key, value]) => [
    key,
    plain(key, value, userSource(nas, key in snapshot.user)),
  ]);
  const id = nameOf(snapshot);
  return {
    id,
    name: id,
    pool: id.split("/")[0],
    type: "SNAPSHOT",
    snapshot_name: snapshot.name,
    dataset: snapshot.dataset,
    createtxg: String(snapshot.createtxg),
    properties: Object.fromEntries([...native, ...user]),
  };
}

interface Creation {
  readonly dataset: string;
  readonly name: string;
  readonly properties: Record<string, string>;
}

export function create(nas: Nas, [data]: readonly unknown[]): unknown {
  const prefix = nas.number >= 2510 ? "pool.snapshot.create" : "zfs.snapshot.create";
  const { dataset, name, properties } = completed<Creation>(nas, prefix, data);
  if (!nas.state.datasets[dataset]) {
    if (nas.number >= 2600) throw new Invalid([prefix, `'${dataset}' not found`, 2]);
    throw new CallError("EFAULT", `Failed to snapshot ${dataset}@${name}: dataset does not exist`);
  }
  if (nas.state.snapshots[`${dataset}@${name}`]) {
    if (nas.number >= 2600) throw new Invalid([prefix, `${dataset}@${name} already exists.`, 17]);
    // A number of its own from 22.12 on (plugins/zfs.py of TS-22.02.4 and TS-22.12.4.2).
    const errname = nas.number >= 2212 ? "EEXIST" : "EFAULT";
    throw new CallError(errname, `Failed to snapshot ${dataset}@${name}: dataset already exists`);
  }
  return entry(nas, taken(nas, dataset, name, properties));
}

interface Change {
  readonly user_properties_update?: readonly {
    readonly key: string;
    readonly value?: string;
    readonly remove?: boolean;
  }[];
  readonly user_properties_remove?: readonly string[];
}

/** Removals as 25.10 and newer phrase them. */
function changesOf(nas: Nas, data: unknown): Required<Change> {
  const method = nas.number >= 2510 ? "pool.snapshot.update" : "zfs.snapshot.update";
  const { user_properties_update: all = [], user_properties_remove: gone = [] } = completed<Change>(
    nas,
    method,
    data,
    1,
  );
  const removed = all.filter(({ remove }) => remove).map(({ key }) => key);
  return { user_properties_update: all.filter(({ remove }) => !remove), user_properties_remove: [...gone, ...removed] };
}

export function update(nas: Nas, [id, data]: readonly unknown[]): unknown {
  const fields = changesOf(nas, data);
  const snapshot = present(nas, String(id));
  // 26 answers as if it had done it.
  if (nas.number < 2600) {
    for (const { key, value = "" } of fields.user_properties_update) snapshot.user[key] = value;
    for (const key of fields.user_properties_remove) delete snapshot.user[key];
  }
  return entry(nas, snapshot);
}

type Filters = readonly (readonly unknown[])[];

/**
 * How many snapshots a query up to 25.10 reads with all their properties: none where names alone are asked for, one where one is asked
 * for by its name, else every one of the system, whatever the filters say (plugins/zfs_/snapshot.py, query, of TS-24.10.2.4 to
 * TS-25.10.6; simple_handle and _snapshots_serialized_impl in libzfs.pyx of truenas/py-libzfs at TS-24.10.2.4).
 */
function rowsRead(nas: Nas, filters: Filters, { select, extra }: QueryOptions): number {
  const fields = filters.map(([field]) => field);
  const cheap = fields.every(field => field === "name" || field === "pool" || field === "dataset");
  if (isNamesAlone(extra) || (cheap && select?.length === 1 && select[0] === "name")) return 0;
  const [[field, operator] = []] = filters;
  if (filters.length === 1 && (field === "id" || field === "name") && operator === "=") return 1;
  return Object.keys(nas.state.snapshots).length;
}

const isNamesAlone = (extra: QueryOptions["extra"]): boolean => {
  const { properties } = extra ?? {};
  return (
    Array.isArray(properties) && properties.length > 0 && properties.every(key => key === "name" || key === "createtxg")
  );
};

export function query(nas: Nas, [filters, options]: readonly unknown[]): unknown {
  const { extra = {}, ...rest } = (options ?? {}) as QueryOptions;
  const narrow = nas.number < 2600 && isNamesAlone(extra);
  if (nas.number < 2600) nas.readRows(rowsRead(nas, (filters ?? []) as Filters, { ...rest, extra }));
  const rows = Object.values(nas.state.snapshots).map(each => entry(nas, each, extra));
  return queried(narrow ? rows.map(({ properties: _, ...row }) => row) : rows, filters, rest);
}

export function remove(nas: Nas, [id, options]: readonly unknown[]): unknown {
  const method = nas.number >= 2510 ? "pool.snapshot.delete" : "zfs.snapshot.delete";
  const { defer } = completed<{ readonly defer: boolean }>(nas, method, options, 1);
  const name = String(id);
  // Up to 22.12 libzfs's message alone (do_delete() in plugins/zfs.py of TN-12.0-U8.1 to TS-22.12.4.2; get_snapshot() of py-libzfs).
  if (nas.number < 2310 && !nas.state.snapshots[name]) throw new CallError("EFAULT", `Snapshot ${name} not found`);
  destroySnapshot(nas, name, defer, "pool.snapshot.delete");
  return true;
}

export function destroySnapshot(nas: Nas, id: string, defer: boolean, method: string): void {
  const snapshot = present(nas, id);
  const clones = clonesOf(nas, id)
    .map(({ name }) => name)
    .join(", ");
  const held = snapshot.holds > 0;
  if (clones !== "" && !defer) {
    if (nas.number >= 2600) throw new Invalid([method, `'${id}' has the following clones: ${clones}`, 16]);
    // Up to 23.10 libzfs's message alone (plugins/zfs_/snapshot.py of TS-23.10.2 and TS-24.04.2.5).
    if (nas.number < 2404) throw new CallError("EFAULT", `cannot destroy '${id}': snapshot has dependent clones`);
    throw new Invalid([
      "options.defer",
      `Please set this attribute as '${id}' snapshot has dependent clones: ${clones}`,
      22,
    ]);
  }
  if (held && nas.number >= 2600) throw new Invalid([method, `'${id}' has the following holds: truenas`, 16]);
  // delete() in plugins/zfs_/snapshot.py of TS-24.10.2.4 to TS-25.10.6: no number of its own.
  if (held && !defer) throw new CallError("EFAULT", `cannot destroy snapshot ${id}: dataset is busy`);
  if (clones !== "" || held) snapshot.deferred = true;
  else delete nas.state.snapshots[id];
}

export function hold(nas: Nas, [id]: readonly unknown[]): unknown {
  present(nas, String(id)).holds += 1;
  return null;
}

export function release(nas: Nas, [id]: readonly unknown[]): unknown {
  const snapshot = present(nas, String(id));
  snapshot.holds = 0;
  if (snapshot.deferred && clonesOf(nas, nameOf(snapshot)).length === 0) delete nas.state.snapshots[nameOf(snapshot)];
  return null;
}

export function rollback(nas: Nas, [id]: readonly unknown[]): unknown {
  const snapshot = present(nas, String(id));
  const dataset = existing(nas, snapshot.dataset);
  if (snapshot.content === undefined) delete dataset.content;
  else dataset.content = snapshot.content;
  return null;
}

/**
 * pool.snapshot.rename, with whole names (api/v25_10_0/pool_snapshot.py: PoolSnapshotRenameArgs of 25.10.0; there is no such method before).
 * Up to 25.10 what is missing or in the way is EFAULT and the messages of libzfs (rename in plugins/pool_/snapshot.py and
 * plugins/zfs_/snapshot_actions.py of TS-25.10.6; zfs_rename in libzfs_dataset.c of OpenZFS 2.3). 26 hands it to a method that takes no
 * snapshots (rename in plugins/pool_/snapshot.py and plugins/zfs/resource_crud.py of TS-26.0.0-BETA.3).
 */
export function rename(nas: Nas, [id, options]: readonly unknown[]): unknown {
  const { new_name: to, force } = completed<{ readonly new_name: string; readonly force: boolean }>(
    nas,
    "pool.snapshot.rename",
    options,
    1,
  );
  if (!force) throw new Invalid(["pool.snapshot.rename.force", noSafetyChecks, 22]);
  const elsewhere = "Old and new snapshot must be part of the same ZFS dataset";
  if (to.split("@")[0] !== String(id).split("@")[0])
    throw new Invalid(["pool.snapshot.rename.new_name", elsewhere, 22]);
  const snapshot = nas.state.snapshots[String(id)];
  if (nas.number >= 2600)
    throw new Invalid(["zfs.resource.rename", "Use `zfs.resource.snapshot.rename` to rename snapshots.", 22]);
  if (!snapshot) throw new CallError("EFAULT", `Failed to rename snapshot: Snapshot ${id} not found`);
  if (nas.state.snapshots[to] && to !== id)
    throw new CallError("EFAULT", `Failed to rename snapshot: cannot rename '${id}': dataset already exists`);
  renamed(nas, snapshot, to);
  return null;
}

/** Gives a snapshot another name; what was cloned from it knows it by that. */
export function renamed(nas: Nas, snapshot: Snapshot, to: string): void {
  const from = nameOf(snapshot);
  for (const clone of clonesOf(nas, from)) clone.origin = to;
  delete nas.state.snapshots[from];
  snapshot.name = to.slice(to.indexOf("@") + 1);
  nas.state.snapshots[to] = snapshot;
}

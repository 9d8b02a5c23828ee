import * as v from "valibot";
import { clonesOf, existing, made, snapshotsOf, userSource } from "./datasets.ts";
import { CallError, Invalid } from "./failure.ts";
import { flag, modelled, modelledOld, or, text, whole } from "./models.ts";
import { shown, userProperties } from "./properties.ts";
import { type QueryOptions, queried } from "./query.ts";
import { type Nas, nextTxg, type Snapshot } from "./state.ts";

/**
 * zfs.snapshot.*, pool.snapshot.* and zfs.resource.snapshot.*: three generations of the same (plugins/zfs.py of TN-12.0-U8.1 to
 * TS-22.12.4.2, plugins/zfs_/snapshot.py and snapshot_actions.py of TS-23.10.2 to TS-25.10.6, plugins/pool_/snapshot.py and plugins/zfs/snapshot_crud.py of TS-26.0.0-BETA.3).
 * pool.dataset.destroy_snapshots is left out: csimux names each snapshot that it destroys, and calls it nowhere.
 */

const nameOf = ({ dataset, name }: Snapshot): string => `${dataset}@${name}`;

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

function rawOf(nas: Nas, snapshot: Snapshot): Readonly<Record<string, string>> {
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
const hidden26 = new Set(["clones", "defer_destroy", "userrefs"]);

/** A snapshot's own user properties over those of its dataset (zfsprops(7)). */
const userOf = (nas: Nas, snapshot: Snapshot): Readonly<Record<string, string>> => {
  const inherited = Object.entries(userProperties(nas, existing(nas, snapshot.dataset)));
  return { ...Object.fromEntries(inherited.map(([key, [value]]) => [key, value])), ...snapshot.user };
};

function entry(nas: Nas, snapshot: Snapshot, extra: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const withUser = nas.number < 2600 || extra["retention"] === true;
  const plain = (key: string, raw: string, source: string) => {
    const { source_info: _, ...shape } = shown(key, raw, source);
    return shape;
  };
  const listed = Object.entries(rawOf(nas, snapshot)).filter(([key]) => nas.number < 2600 || !hidden26.has(key));
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

const createModel = v.strictObject({
  dataset: v.string(),
  name: text,
  recursive: or(flag, false),
  exclude: or(v.array(v.string()), []),
  vmware_sync: or(flag, false),
  suspend_vms: or(flag, false),
  properties: v.optional(v.record(v.string(), v.string()), {}),
});

export function create(nas: Nas, [data]: readonly unknown[]): unknown {
  const { dataset, name, properties } =
    nas.number < 2510 ? modelledOld(nas, createModel, data, "snapshot_create") : modelled(createModel, data, "data");
  const prefix = nas.number >= 2510 ? "pool.snapshot.create" : "zfs.snapshot.create";
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

const change = v.strictObject({ key: v.string(), value: v.optional(v.string()), remove: v.optional(flag) });
const updateOld = v.strictObject({ user_properties_update: v.optional(v.array(change), []) });
/** Both are needed, and nothing is removed this way (api/v25_10_0/pool_snapshot.py of 25.10.6). */
const pair = v.strictObject({ key: v.string(), value: v.string() });
const updateModel = v.strictObject({
  user_properties_update: v.optional(v.array(pair), []),
  user_properties_remove: v.optional(v.array(v.string()), []),
});

/** Removals as 25.10 and newer phrase them. */
function changesOf(nas: Nas, data: unknown): v.InferOutput<typeof updateModel> {
  if (nas.number >= 2510) return modelled(updateModel, data, "data");
  const { user_properties_update: all } = modelledOld(nas, updateOld, data, "snapshot_update");
  const kept = all.flatMap(({ key, value, remove }) => (remove ? [] : [{ key, value: value ?? "" }]));
  const removed = all.filter(({ remove }) => remove).map(({ key }) => key);
  return { user_properties_update: kept, user_properties_remove: removed };
}

export function update(nas: Nas, [id, data]: readonly unknown[]): unknown {
  const fields = changesOf(nas, data);
  const snapshot = present(nas, String(id));
  // 26 answers as if it had done it.
  if (nas.number < 2600) {
    for (const { key, value } of fields.user_properties_update) snapshot.user[key] = value;
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

const deleteModel = v.strictObject({ defer: or(flag, false), recursive: or(flag, false) });

export function remove(nas: Nas, [id, options]: readonly unknown[]): unknown {
  const { defer } = modelled(deleteModel, options ?? {}, "options");
  const name = String(id);
  // Up to 22.12 libzfs's message alone (do_delete() in plugins/zfs.py of TN-12.0-U8.1 to TS-22.12.4.2; get_snapshot() of py-libzfs).
  if (nas.number < 2310 && !nas.state.snapshots[name]) throw new CallError("EFAULT", `Snapshot ${name} not found`);
  destroySnapshot(nas, name, defer, "pool.snapshot.delete");
  return true;
}

function destroySnapshot(nas: Nas, id: string, defer: boolean, method: string): void {
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

const cloneModel = v.strictObject({
  snapshot: v.string(),
  dataset_dst: v.string(),
  dataset_properties: v.optional(v.record(v.string(), v.unknown()), {}),
});

/** CORE clones without properties (plugins/zfs.py of 13.0-U6.3). */
const cloneOnCore = v.strictObject({ snapshot: v.string(), dataset_dst: v.string() });

export function clone(nas: Nas, [data]: readonly unknown[]): unknown {
  if (nas.number < 2000) modelledOld(nas, cloneOnCore, data, "snapshot_clone");
  const { snapshot, dataset_dst, dataset_properties } =
    nas.number < 2510 ? modelledOld(nas, cloneModel, data, "snapshot_clone") : modelled(cloneModel, data, "data");
  cloned(nas, snapshot, dataset_dst, dataset_properties as Record<string, string>);
  return true;
}

/**
 * Why ZFS makes no clone. Up to 25.10 all of it is EFAULT and words (clone() in plugins/zfs_/snapshot_actions.py of TS-24.10.2.4 to
 * TS-25.10.6); 26 hands on what no one has caught as EINVAL (clone_impl() in plugins/zfs/rename_promote_clone_impl.py and
 * api/base/server/ws_handler/rpc.py of TS-26.0.0-BETA.3). assumed: libzfs's message.
 */
function notCloned(nas: Nas, id: string, target: string): Error | undefined {
  const parent = target.slice(0, target.lastIndexOf("/"));
  const on26 = (words: string, trace?: string) => new CallError("EINVAL", words, trace);
  const before = (words: string) => new CallError("EFAULT", `Failed to clone snapshot: ${words}`);
  const is26 = nas.number >= 2600;
  if (!nas.state.snapshots[id])
    return is26
      ? on26(`'${id}' not found`, "ZFSPathNotFoundException")
      : before(`cannot open '${id}': dataset does not exist`);
  if (nas.state.datasets[target])
    return is26
      ? on26(`'${target}' already exists`, "ZFSPathAlreadyExistsException")
      : before(`cannot create '${target}': dataset already exists`);
  if (nas.state.datasets[parent]) return undefined;
  const words = `cannot create '${target}': parent does not exist`;
  return is26 ? on26(`[EZFS_NOENT]: ${words}`, "ZFSException") : before(words);
}

function cloned(nas: Nas, id: string, target: string, properties: Readonly<Record<string, string>>): void {
  const why = notCloned(nas, id, target);
  const snapshot = nas.state.snapshots[id];
  if (why || !snapshot) throw why;
  const user: Record<string, string> = {};
  const native: Record<string, string> = {};
  for (const [key, value] of Object.entries(properties)) {
    if (!key.includes(":")) native[key] = String(value).toLowerCase();
    else if (nas.number >= 2600) throw new CallError("EINVAL", `${key}: not a valid ZFS property.`);
    else user[key] = String(value);
  }
  const source = existing(nas, snapshot.dataset);
  const block = source.native["volblocksize"];
  made(nas, target, source.type, {
    origin: id,
    user,
    native: {
      ...(snapshot.volsize === undefined ? {} : { volsize: snapshot.volsize }),
      ...(block === undefined ? {} : { volblocksize: block }),
      ...native,
    },
    mode: source.mode,
    uid: source.uid,
    gid: source.gid,
    ...(source.acl === undefined ? {} : { acl: source.acl }),
    ...(snapshot.content === undefined ? {} : { content: snapshot.content }),
  });
}

const resourceCreate = v.strictObject({
  dataset: v.string(),
  name: v.string(),
  recursive: or(flag, false),
  exclude: or(v.array(v.string()), []),
  user_properties: v.optional(v.record(v.string(), v.string()), {}),
});

/** zfs.resource.snapshot.create. */
export function createResource(nas: Nas, [data]: readonly unknown[]): unknown {
  const { dataset, name, user_properties } = modelled(resourceCreate, data, "data");
  const method = "zfs.resource.snapshot.create";
  if (!nas.state.datasets[dataset]) throw new Invalid([method, `'${dataset}' not found`, 2]);
  const id = `${dataset}@${name}`;
  if (nas.state.snapshots[id]) throw new Invalid([method, `'${id}' already exists`, 17]);
  return resource(nas, taken(nas, dataset, name, user_properties), [], true, false);
}

const resourceQuery = v.strictObject({
  paths: or(v.array(v.string()), []),
  recursive: or(flag, false),
  properties: v.optional(v.nullable(v.array(v.string())), []),
  get_user_properties: or(flag, false),
  get_source: or(flag, false),
  get_holds: or(flag, false),
  min_txg: or(whole, 0),
  max_txg: or(whole, 0),
});

function resource(
  nas: Nas,
  snapshot: Snapshot,
  wanted: readonly string[] | null,
  user: boolean,
  holds: boolean,
): object {
  const raw = rawOf(nas, snapshot);
  const keys = (wanted ?? []).filter(key => key in raw && !hidden26.has(key));
  const properties = keys.map(key => [key, { raw: raw[key], value: raw[key], source: null }]);
  return {
    name: nameOf(snapshot),
    pool: snapshot.dataset.split("/")[0],
    type: "SNAPSHOT",
    dataset: snapshot.dataset,
    snapshot_name: snapshot.name,
    createtxg: snapshot.createtxg,
    guid: Number(snapshot.guid),
    holds: holds ? Array.from({ length: snapshot.holds }, (_, at) => `tag-${at}`) : null,
    properties: wanted?.length ? Object.fromEntries(properties) : null,
    user_properties: user ? userOf(nas, snapshot) : null,
  };
}

/** zfs.resource.snapshot.query. */
export function queryResource(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = modelled(resourceQuery, data ?? {}, "data");
  const found = fields.paths.flatMap(path => {
    if (path.includes("@")) {
      const snapshot = nas.state.snapshots[path];
      if (!snapshot) throw new Invalid(["zfs.resource.snapshot.query", `'${path}' not found`, 2]);
      return [snapshot];
    }
    if (!nas.state.datasets[path]) throw new Invalid(["zfs.resource.snapshot.query", `'${path}' not found`, 2]);
    return Object.values(nas.state.snapshots).filter(
      ({ dataset }) => dataset === path || (fields.recursive && dataset.startsWith(`${path}/`)),
    );
  });
  return found.map(each =>
    resource(nas, each, fields.properties ?? null, fields.get_user_properties, fields.get_holds),
  );
}

const resourceDestroy = v.strictObject({
  path: v.string(),
  recursive: or(flag, false),
  all_snapshots: or(flag, false),
  defer: or(flag, false),
});

/** zfs.resource.snapshot.destroy. */
export function destroyResource(nas: Nas, [data]: readonly unknown[]): unknown {
  const { path, all_snapshots, defer } = modelled(resourceDestroy, data, "data");
  const method = "zfs.resource.snapshot.destroy";
  if (all_snapshots) for (const each of snapshotsOf(nas, path)) delete nas.state.snapshots[nameOf(each)];
  else if (!nas.state.snapshots[path]) throw new Invalid([method, `'${path}' not found`, 2]);
  else destroySnapshot(nas, path, defer, method);
  return null;
}

const resourceRename = v.strictObject({
  current_name: v.string(),
  new_name: v.string(),
  recursive: or(flag, false),
});

/** zfs.resource.snapshot.rename; what was cloned from it knows it by its new name. */
export function renameResource(nas: Nas, [data]: readonly unknown[]): unknown {
  const { current_name, new_name } = modelled(resourceRename, data, "data");
  const method = "zfs.resource.snapshot.rename";
  const snapshot = nas.state.snapshots[current_name];
  if (!snapshot) throw new Invalid([method, `'${current_name}' not found`, 2]);
  if (nas.state.snapshots[new_name]) throw new Invalid([method, `'${new_name}' already exists`, 17]);
  for (const clone of clonesOf(nas, current_name)) clone.origin = new_name;
  delete nas.state.snapshots[current_name];
  snapshot.name = new_name.slice(new_name.indexOf("@") + 1);
  nas.state.snapshots[new_name] = snapshot;
  return null;
}

const resourceClone = v.strictObject({
  snapshot: v.string(),
  dataset: v.string(),
  properties: v.optional(v.record(v.string(), v.string()), {}),
});

/** zfs.resource.snapshot.clone: what is missing or in the way has a number here (plugins/zfs/snapshot_crud.py of TS-26.0.0-BETA.3). */
export function cloneResource(nas: Nas, [data]: readonly unknown[]): unknown {
  const { snapshot, dataset, properties } = modelled(resourceClone, data, "data");
  const method = "zfs.resource.snapshot.clone";
  if (!nas.state.snapshots[snapshot]) throw new Invalid([method, `'${snapshot}' not found`, 2]);
  if (nas.state.datasets[dataset]) throw new Invalid([method, `'${dataset}' already exists`, 17]);
  cloned(nas, snapshot, dataset, properties);
  return null;
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

const rollbackModel = v.looseObject({});

export function rollback(nas: Nas, [id, options]: readonly unknown[]): unknown {
  modelled(rollbackModel, options ?? {}, "options");
  const snapshot = present(nas, String(id));
  const dataset = existing(nas, snapshot.dataset);
  if (snapshot.content === undefined) delete dataset.content;
  else dataset.content = snapshot.content;
  return null;
}

import * as v from "valibot";
import { Invalid } from "../failure.ts";
import { flag, modelled, or, whole } from "../models.ts";
import type { Nas, Snapshot } from "../state.ts";
import { snapshotsOf } from "./dataset-removal.ts";
import { cloned } from "./snapshot-clones.ts";
import { destroySnapshot, hidden26, nameOf, rawOf, renamed, taken, userOf } from "./snapshots.ts";

/** zfs.resource.snapshot.*, the third generation (plugins/zfs/snapshot_crud.py of TS-26.0.0-BETA.3). */

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
  renamed(nas, snapshot, new_name);
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

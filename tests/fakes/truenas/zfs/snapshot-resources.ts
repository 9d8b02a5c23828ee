import { completed } from "../facts/complete.ts";
import { Invalid } from "../failure.ts";
import type { Nas, Snapshot } from "../state.ts";
import { snapshotsOf } from "./dataset-removal.ts";
import { cloned } from "./snapshot-clones.ts";
import { destroySnapshot, hidden26, nameOf, rawOf, renamed, taken, userOf } from "./snapshots.ts";

/** zfs.resource.snapshot.*, the third generation (plugins/zfs/snapshot_crud.py of TS-26.0.0-BETA.3). */

interface Creation {
  readonly dataset: string;
  readonly name: string;
  readonly user_properties: Record<string, string>;
}

/** zfs.resource.snapshot.create, which answers when it was taken and no user properties (plugins/zfs/snapshot_create_impl.py of TS-26.0.0-BETA.3). */
export function createResource(nas: Nas, [data]: readonly unknown[]): unknown {
  const { dataset, name, user_properties } = completed<Creation>(nas, "zfs.resource.snapshot.create", data);
  const method = "zfs.resource.snapshot.create";
  if (!nas.state.datasets[dataset]) throw new Invalid([method, `'${dataset}' not found`, 2]);
  const id = `${dataset}@${name}`;
  if (nas.state.snapshots[id]) throw new Invalid([method, `'${id}' already exists`, 17]);
  return resource(nas, taken(nas, dataset, name, user_properties), ["creation", "createtxg"], false, false);
}

/** What is asked for. */
interface Query {
  readonly paths: readonly string[];
  readonly recursive: boolean;
  readonly properties: readonly string[] | null;
  readonly get_user_properties: boolean;
  readonly get_holds: boolean;
}

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
    // Null for none, too (plugins/zfs/snapshot_query_impl.py of TS-26.0.0-BETA.3).
    holds: holds && snapshot.holds > 0 ? Array.from({ length: snapshot.holds }, (_, at) => `tag-${at}`) : null,
    properties: wanted?.length ? Object.fromEntries(properties) : null,
    user_properties: user ? userOf(nas, snapshot) : null,
  };
}

/** zfs.resource.snapshot.query. */
export function queryResource(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Query>(nas, "zfs.resource.snapshot.query", data);
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

interface Destruction {
  readonly path: string;
  readonly all_snapshots: boolean;
  readonly defer: boolean;
}

/** zfs.resource.snapshot.destroy. */
export function destroyResource(nas: Nas, [data]: readonly unknown[]): unknown {
  const { path, all_snapshots, defer } = completed<Destruction>(nas, "zfs.resource.snapshot.destroy", data);
  const method = "zfs.resource.snapshot.destroy";
  if (all_snapshots) for (const each of snapshotsOf(nas, path)) delete nas.state.snapshots[nameOf(each)];
  else if (!nas.state.snapshots[path]) throw new Invalid([method, `'${path}' not found`, 2]);
  else destroySnapshot(nas, path, defer, method);
  return null;
}

/** zfs.resource.snapshot.rename; what was cloned from it knows it by its new name. */
export function renameResource(nas: Nas, [data]: readonly unknown[]): unknown {
  const { current_name, new_name } = completed<{ readonly current_name: string; readonly new_name: string }>(
    nas,
    "zfs.resource.snapshot.rename",
    data,
  );
  const method = "zfs.resource.snapshot.rename";
  const snapshot = nas.state.snapshots[current_name];
  if (!snapshot) throw new Invalid([method, `'${current_name}' not found`, 2]);
  if (nas.state.snapshots[new_name]) throw new Invalid([method, `'${new_name}' already exists`, 17]);
  renamed(nas, snapshot, new_name);
  return null;
}

interface Cloning {
  readonly snapshot: string;
  readonly dataset: string;
  readonly properties: Readonly<Record<string, string>>;
}

/** zfs.resource.snapshot.clone: what is missing or in the way has a number here (plugins/zfs/snapshot_crud.py of TS-26.0.0-BETA.3). */
export function cloneResource(nas: Nas, [data]: readonly unknown[]): unknown {
  const { snapshot, dataset, properties } = completed<Cloning>(nas, "zfs.resource.snapshot.clone", data);
  const method = "zfs.resource.snapshot.clone";
  if (!nas.state.snapshots[snapshot]) throw new Invalid([method, `'${snapshot}' not found`, 2]);
  if (nas.state.datasets[dataset]) throw new Invalid([method, `'${dataset}' already exists`, 17]);
  cloned(nas, snapshot, dataset, properties);
  return null;
}

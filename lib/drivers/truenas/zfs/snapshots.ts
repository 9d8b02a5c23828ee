import { poolOf } from "../../zfs/names.ts";
import type { Api } from "../api.ts";
import type { ApiRow } from "../api-error.ts";
import {
  nameOf,
  onlyProperties,
  otherVersion,
  present,
  resourceFields,
  rowsOf,
  type System,
  snapshotService,
  whyNot,
  withResources,
  withSnapshotResources,
  zfsError,
} from "./queries.ts";
import { resourceEntry } from "./rows.ts";
import { type ApiValues, asChanges } from "./values.ts";

/** Reading and taking snapshots, with the requests of each version. */

/** Options for names alone: JSON-RPC selects the field, REST names the property (plugins/zfs_/snapshot.py, query, up to 25.10). */
const namesAlone = { select: ["name"], extra: { properties: ["name"] } };
/** For more snapshots than this, one query that reads every snapshot of the system is cheaper than one query for each. */
const manySnapshots = 64;
/** The first version with JSON-RPC. */
const withSelection = 2504;

const resources = "zfs.resource.snapshot.query";

/**
 * Rows of 26. It answers holds outside of the properties, and null for none (plugins/zfs/snapshot_query_impl.py of TS-26.0.0-BETA.3): their number is added
 * as userrefs, as zfsprops(7) calls it.
 */
async function resourceRows(
  system: System,
  request: object,
  properties: readonly string[],
): Promise<readonly ApiRow[]> {
  const fields = resourceFields(properties.filter(each => !ofDatasets.has(each)));
  if (!properties.includes("userrefs")) return present(system, resources, { ...request, ...fields });
  const rows = await present(system, resources, { ...request, ...fields, get_holds: true });
  return rows.map(row => {
    const { holds, properties: shown } = row;
    const count = Array.isArray(holds) ? holds.length : 0;
    return { ...row, properties: { ...(shown as ApiRow | null), userrefs: { raw: String(count) } } };
  });
}

/** Properties that datasets alone have (zfsprops(7)). */
const ofDatasets: ReadonlySet<string> = new Set(["acltype", "aclmode"]);

/** The snapshot with this name, or no row. */
export const snapshotRow = (system: System, name: string, properties: readonly string[]): Promise<readonly ApiRow[]> =>
  system.version >= withSnapshotResources
    ? resourceRows(system, { paths: [name] }, properties)
    : oldRows(system, [["id", "=", name]], {});

/** The snapshots of a dataset; with `depth` 2 also those of its children. */
export async function snapshotRows(
  system: System,
  parent: string,
  properties: readonly string[],
  depth: number,
): Promise<readonly ApiRow[]> {
  if (system.version >= withSnapshotResources) {
    const rows = await resourceRows(system, { paths: [parent], recursive: depth > 1 }, properties);
    return properties.includes("clones") ? withClones(system, rows) : rows;
  }
  const options = { extra: onlyProperties(properties) };
  if (depth > 1) return oldRows(system, [["pool", "=", poolOf(parent)]], options);
  // Up to 25.10 every query except by names and ids reads all snapshots of the system: so this reads the names first, then each one.
  const filters = [["dataset", "=", parent]];
  const names = await oldRows(system, filters, namesAlone);
  if (names.length > manySnapshots) return oldRows(system, filters, options);
  return (await Promise.all(names.map(row => snapshotRow(system, nameOf(row), properties)))).flat();
}

/** Adds the clones of snapshots, which 26 does not answer: reads the origins of all datasets of the pool, in one request. */
async function withClones(system: System, rows: readonly ApiRow[]): Promise<readonly ApiRow[]> {
  if (rows.length === 0) return rows;
  const pool = poolOf(nameOf(rows[0] ?? {}));
  const request = { paths: [pool], properties: ["origin"], get_children: true };
  const clones = new Map<string, string[]>();
  for (const row of await present(system, "zfs.resource.query", request)) {
    const origin = resourceEntry(row, ["origin"], undefined).properties.get("origin")?.value;
    if (origin !== undefined) clones.set(origin, [...(clones.get(origin) ?? []), nameOf(row)]);
  }
  return rows.map(row => {
    const raw = clones.get(nameOf(row))?.join(",") ?? "";
    return { ...row, properties: { ...(row["properties"] as ApiRow | null), clones: { raw } } };
  });
}

/** Snapshots with this name, or all of them, with as few others and as few properties as the version allows. */
export function snapshotsNamed(system: System, parent: string, name: string | undefined): Promise<readonly ApiRow[]> {
  const { version } = system;
  if (version >= withSnapshotResources)
    return present(system, resources, { paths: [parent], recursive: true, properties: null });
  const byPool = name === undefined || version >= withSelection;
  const filter = byPool ? ["pool", "=", poolOf(parent)] : ["snapshot_name", "=", name];
  return oldRows(system, [filter], namesAlone);
}

/** Sends the query of older versions. 26 answers it, too, but without user properties, so such an answer is discarded. */
async function oldRows(system: System, filters: readonly unknown[], options: object): Promise<readonly ApiRow[]> {
  const { api, version, signal } = system;
  const rows = await rowsOf(system, `${snapshotService(version)}.query`, filters, options);
  if ((await api.version(signal)).number === version) return rows;
  throw otherVersion(api);
}

/**
 * Takes a snapshot with all its properties, because 26 cannot add any later. Answers its row as in zfs.snapshot.query (plugins/zfs_/snapshot.py,
 * create, up to 25.10) or zfs.resource.snapshot.create. Answers undefined when the system was upgraded to 26 before it took the snapshot: then the
 * row has no user properties. Throws ApiError.
 */
export async function taken(
  api: Api,
  id: string,
  values: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<unknown> {
  const { number } = await api.version(signal);
  const [dataset, name] = id.split("@");
  if (number < withSnapshotResources) {
    const row = await api.call(`${snapshotService(number)}.create`, [{ dataset, name, properties: values }], signal);
    return (await api.version(signal)).number < withSnapshotResources ? row : undefined;
  }
  return api.call("zfs.resource.snapshot.create", [{ dataset, name, user_properties: values }], signal);
}

/** Takes a snapshot, and returns whether that succeeded; not where one of this name exists, which `one` reads. Throws ZfsError. */
export async function isTaken(
  api: Api,
  id: string,
  one: () => Promise<unknown>,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await taken(api, id, {}, signal);
    return true;
  } catch (error) {
    const failure = whyNot(error);
    if (failure !== "exists" && (failure === undefined || !(await one()))) throw zfsError(error);
    return false;
  }
}

/** The request that changes the user properties of a snapshot. 25.10 has a list of its own for what is removed (api/v25_10_0/pool_snapshot.py of TS-25.10.6). */
export function snapshotChanges(user: ApiValues["user"], version: number): object {
  if (version < withResources) return { user_properties_update: asChanges(user) };
  const all = asChanges(user) as readonly { readonly key: string; readonly remove?: true }[];
  return {
    user_properties_update: all.filter(({ remove }) => !remove),
    user_properties_remove: all.filter(({ remove }) => remove).map(({ key }) => key),
  };
}

import type { Api } from "../api.ts";
import type { Row } from "../api-error.ts";
import {
  nameOf,
  otherVersion,
  poolOf,
  present,
  resourceFields,
  rowsOf,
  snapshotService,
  whyNot,
  withSnapshotResources,
  zfsError,
} from "./queries.ts";
import { resourceEntry } from "./rows.ts";

/** Reading and taking snapshots, with the requests of each version. */

/**
 * Options for names alone, which save reading the many properties of each snapshot: JSON-RPC selects the field; REST cannot, and names
 * the property (plugins/zfs_/snapshot.py, query, up to 25.10; simple_handle in py-libzfs).
 */
const namesAlone = { select: ["name"], extra: { properties: ["name"] } };
/** For more snapshots than this, one query that reads every snapshot of the system is cheaper than one query for each. */
const manySnapshots = 64;
/** The first version with JSON-RPC. */
const withSelection = 2504;

/** Adds the number of holds as userrefs, as zfsprops(7) calls it: 26 answers holds outside of the properties. */
function withHolds(row: Row): Row {
  const { holds, properties } = row;
  if (!Array.isArray(holds)) return row;
  return { ...row, properties: { ...(properties as Row | null), userrefs: { raw: String(holds.length) } } };
}

/** Reads the snapshots of a TrueNAS system. */
export class SnapshotReader {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  /** The snapshot with this name, or no row. */
  one(name: string, properties: readonly string[], version: number, signal: AbortSignal): Promise<readonly Row[]> {
    if (version >= withSnapshotResources)
      return present(
        this.#api,
        "zfs.resource.snapshot.query",
        [{ paths: [name], ...resourceFields(properties) }],
        signal,
      );
    return this.#old(version, [[["id", "=", name]], {}], signal);
  }

  /** The snapshots of a dataset; with `depth` 2 also those of its children. */
  async below(
    parent: string,
    properties: readonly string[],
    depth: number,
    version: number,
    signal: AbortSignal,
  ): Promise<readonly Row[]> {
    if (version >= withSnapshotResources) {
      const holds = properties.includes("userrefs") ? { get_holds: true } : {};
      const request = { paths: [parent], recursive: depth > 1, ...resourceFields(properties), ...holds };
      const rows = (await present(this.#api, "zfs.resource.snapshot.query", [request], signal)).map(withHolds);
      return properties.includes("clones") ? this.#withClones(rows, signal) : rows;
    }
    if (depth === 1) return this.#few(parent, properties, version, signal);
    return this.#old(version, [[["pool", "=", poolOf(parent)]], {}], signal);
  }

  /** Up to 25.10 every query except by names and ids reads all snapshots of the system: so this reads the names first, then each one. */
  async #few(
    dataset: string,
    properties: readonly string[],
    version: number,
    signal: AbortSignal,
  ): Promise<readonly Row[]> {
    const filters = [["dataset", "=", dataset]];
    const names = await this.#old(version, [filters, namesAlone], signal);
    if (names.length > manySnapshots) return this.#old(version, [filters, {}], signal);
    const each = names.map(row => this.one(nameOf(row), properties, version, signal));
    return (await Promise.all(each)).flat();
  }

  /** Adds the clones of snapshots, which 26 does not answer: reads the origins of all datasets of the pool, in one request. */
  async #withClones(rows: readonly Row[], signal: AbortSignal): Promise<readonly Row[]> {
    if (rows.length === 0) return rows;
    const pool = poolOf(nameOf(rows[0] ?? {}));
    const request = { paths: [pool], properties: ["origin"], get_children: true };
    const clones = new Map<string, string[]>();
    for (const row of await present(this.#api, "zfs.resource.query", [request], signal)) {
      const origin = resourceEntry(row, ["origin"], undefined).properties.get("origin")?.value;
      if (origin !== undefined) clones.set(origin, [...(clones.get(origin) ?? []), nameOf(row)]);
    }
    return rows.map(row => {
      const raw = clones.get(nameOf(row))?.join(",") ?? "";
      return { ...row, properties: { ...(row["properties"] as Row | null), clones: { raw } } };
    });
  }

  /** Snapshots with this name, with as few others and as few properties as the version allows. */
  named(parent: string, name: string, version: number, signal: AbortSignal): Promise<readonly Row[]> {
    if (version >= withSnapshotResources)
      return present(
        this.#api,
        "zfs.resource.snapshot.query",
        [{ paths: [parent], recursive: true, properties: null }],
        signal,
      );
    if (version >= withSelection) return this.#old(version, [[["pool", "=", poolOf(parent)]], namesAlone], signal);
    return this.#old(version, [[["snapshot_name", "=", name]], namesAlone], signal);
  }

  /** Sends the query of older versions. 26 answers it, too, but without user properties, so such an answer is discarded. */
  async #old(version: number, params: readonly unknown[], signal: AbortSignal): Promise<readonly Row[]> {
    const rows = await rowsOf(this.#api, `${snapshotService(version)}.query`, params, signal);
    const { number } = await this.#api.version(signal);
    if (number === version) return rows;
    throw otherVersion(this.#api);
  }
}

/**
 * Takes a snapshot with all its properties, because 26 cannot add any later. Answers its row as in zfs.snapshot.query (plugins/zfs_/snapshot.py,
 * create, up to 25.10). Answers undefined from 26 on, also when the system was upgraded to it before it took the snapshot: then the row has no
 * user properties. Throws ApiError.
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
  await api.call("zfs.resource.snapshot.create", [{ dataset, name, user_properties: values }], signal);
  return undefined;
}

/** Takes a snapshot unless it exists; `one` reads it. Throws ZfsError. */
export async function ensured(api: Api, id: string, one: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  try {
    await taken(api, id, {}, signal);
  } catch (error) {
    const failure = whyNot(error);
    if (failure === "exists") return;
    if (failure === undefined || !(await one())) throw zfsError(error);
  }
}

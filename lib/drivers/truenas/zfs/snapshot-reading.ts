import type { Api } from "../api.ts";
import { otherVersion } from "./of-version.ts";
import {
  nameOf,
  poolOf,
  present,
  type Row,
  resourceFields,
  rowsOf,
  snapshotService,
  withSnapshotResources,
} from "./queries.ts";
import { resourceEntry } from "./rows.ts";

/** Reading snapshots, with the requests that each version has for it. */

/**
 * Options for names alone. With them no property is read, of which there are many for each snapshot: JSON-RPC selects the field, REST,
 * which cannot, names the property (plugins/zfs_/snapshot.py, query, up to 25.10; simple_handle in py-libzfs).
 */
const namesAlone = { select: ["name"], extra: { properties: ["name"] } };
/** From here on one query that reads every snapshot of the system is better than one for each. */
const manySnapshots = 64;
/** The first version with JSON-RPC. */
const withSelection = 2504;

/** 26 tells the holds of a snapshot beside its properties; zfsprops(7) calls their number userrefs. */
function withHolds(row: Row): Row {
  const { holds, properties } = row;
  if (!Array.isArray(holds)) return row;
  return { ...row, properties: { ...(properties as Row | null), userrefs: { raw: String(holds.length) } } };
}

/** Snapshots of a TrueNAS system. */
export class SnapshotReader {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  /** The snapshot of this name, or nothing. */
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

  /** The snapshots of a dataset; with `depth` 2 those of its children, too. */
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

  /** Up to 25.10 any query but those by names and ids alone reads every snapshot of the system: so first who is there, then who they are. */
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

  /**
   * 26 tells of a snapshot neither its clones nor whether its destruction waits for them; who is a clone is asked of the datasets
   * of the pool then, all in one request.
   */
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

  /** Snapshots by their name alone, with as little of them as the version lets one ask for. */
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

  /** 26 answers the query of older versions, too, but without user properties: what came then is of no use. */
  async #old(version: number, params: readonly unknown[], signal: AbortSignal): Promise<readonly Row[]> {
    const rows = await rowsOf(this.#api, `${snapshotService(version)}.query`, params, signal);
    const { number } = await this.#api.version(signal);
    if (number === version) return rows;
    throw otherVersion(this.#api);
  }
}

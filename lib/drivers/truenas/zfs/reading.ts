import { datasetOf, poolOf, snapshotNameOf } from "../../zfs/names.ts";
import {
  type DatasetType,
  type Depth,
  type Entries,
  type Entry,
  type PropertyQuery,
  type Zfs,
  ZfsError,
} from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import type { ApiRow } from "../api-error.ts";
import { gathering } from "./gathering.ts";
import {
  datasetFields,
  nameOf,
  onlyProperties,
  present,
  rowsOf,
  type System,
  systemOf,
  wantsUser,
  withResources,
  withSnapshotResources,
} from "./queries.ts";
import { resourceEntry, shownEntry } from "./rows.ts";
import { snapshotRow, snapshotRows, snapshotsNamed } from "./snapshots.ts";

/** Reading datasets and snapshots, with the requests of each version. */

const isSnapshot = (name: string): boolean => name.includes("@");
/** The dataset that a dataset or snapshot inherits from. */
const above = (name: string): string =>
  isSnapshot(name) ? datasetOf(name) : name.slice(0, Math.max(0, name.lastIndexOf("/")));

/** How long the ancestors of volumes are assumed not to change, in milliseconds. */
const recentMs = 3000;
/** The number of answers about them that are kept. */
const knownAnswers = 16;

/** What one connection uses of the API for datasets. */
export interface DatasetApi {
  readonly api: Api;
  readonly reading: DatasetReader;
}

/** Reads the datasets and snapshots of a system. */
export class DatasetReader {
  readonly #api: Api;
  readonly #rows = gathering(datasetRows);
  #recent: Map<string, { readonly rows: readonly ApiRow[]; readonly until: number }> | undefined;

  constructor(api: Api) {
    this.#api = api;
  }

  /** As Zfs.read. */
  async read({ names, properties }: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    const system = await systemOf(this.#api, signal);
    const rows = await this.#rowsByName(system, names, properties);
    const found = new Map<string, Entry>();
    for (const name of names) {
      const row = rows.get(name);
      if (row) found.set(name, entryOf(row, properties, rows.get(above(name)), system));
      else if (!/[/@]/.test(name)) throw absentPool(name);
    }
    return found;
  }

  /** One dataset or snapshot; undefined if it does not exist. */
  async one(name: string, properties: readonly string[], signal: AbortSignal): Promise<Entry | undefined> {
    return (await this.read({ names: [name], properties }, signal)).get(name);
  }

  /** As Zfs.below. */
  async below(...[parent, types, properties, depth, signal]: Parameters<Zfs["below"]>): Promise<readonly Entry[]> {
    return (await entriesBelow(await systemOf(this.#api, signal), parent, types, properties, depth))(undefined);
  }

  /** As Zfs.family. */
  async family(dataset: string, { names, properties }: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    const system = await systemOf(this.#api, signal);
    const others = names.filter(name => name !== dataset);
    const [rows, below] = await Promise.all([
      this.#rowsByName(system, others, properties, [...others, above(dataset)]),
      entriesBelow(system, dataset, ["filesystem", "volume", "snapshot"], properties, 1),
    ]);
    const shown = others.flatMap(name => {
      const row = rows.get(name);
      return row ? [entryOf(row, properties, rows.get(above(name)), system)] : [];
    });
    return new Map([...shown, ...below(rows.get(above(dataset)))].map(entry => [entry.name, entry]));
  }

  /** As Zfs.families: reads everything below their parent, since a request for each would take long. */
  async families(names: readonly string[], properties: readonly string[], signal: AbortSignal): Promise<Entries> {
    const types = ["filesystem", "volume", "snapshot"] as const;
    const all = await this.below(above(names[0] ?? ""), types, properties, 2, signal);
    const isOf = (name: string) => names.some(each => name === each || levels(each, name) === 1);
    return new Map(all.filter(({ name }) => isOf(name)).map(entry => [entry.name, entry]));
  }

  /** Names of datasets up to two levels below `parent`; `along` is read at the same time and proves the pools in it. */
  async datasetsBelow(parent: string, along: readonly string[], signal: AbortSignal): Promise<readonly string[]> {
    const system = await systemOf(this.#api, signal);
    const tree = await treeOf(system, parent, ["type"], 2);
    if (tree.length === 0 && !along.includes(poolOf(parent))) await provePool(system, parent);
    return tree.map(nameOf).filter(name => [1, 2].includes(levels(parent, name)));
  }

  /** Datasets directly below `parent` that have a snapshot with this name. */
  async holders(parent: string, snapshotName: string, signal: AbortSignal): Promise<readonly string[]> {
    const rows = await snapshotsNamed(await systemOf(this.#api, signal), parent, snapshotName);
    return rows.flatMap(row => {
      const [dataset = "", name] = nameOf(row).split("@");
      return name === snapshotName && levels(parent, dataset) === 1 ? [dataset] : [];
    });
  }

  /** The names of all snapshots of datasets directly below `parent`, and a few more. */
  async snapshotNames(parent: string, signal: AbortSignal): Promise<readonly string[]> {
    const rows = await snapshotsNamed(await systemOf(this.#api, signal), parent, undefined);
    return rows.map(row => snapshotNameOf(nameOf(row)));
  }

  /** Rows by name, also of the parents, for what is inherited. If one is missing, its pool is read again, not remembered. */
  async #rowsByName(
    system: System,
    names: readonly string[],
    properties: readonly string[],
    upperOnes: readonly string[] = upperOf(names),
  ): Promise<ReadonlyMap<string, ApiRow>> {
    const upper = [...new Set([...upperOnes, ...headsOf(names, properties, system)])];
    const single = [...new Set(names)].filter(name => !upper.includes(name));
    // Older versions answer all properties, whichever are asked for.
    const key = JSON.stringify([system.version, upper, system.version >= withResources && properties]);
    const known = this.#recentRows(key);
    const datasets = [...(known ? [] : upper), ...single.filter(name => !isSnapshot(name))];
    const found = await this.#rows(system, datasets, properties);
    // Last: what is deleted right after this is not read again (Inspected.fresh).
    const snapshots = single.filter(isSnapshot).map(name => snapshotRow(system, name, properties));
    const rows = [...found, ...(await Promise.all(snapshots)).flat()];
    const whole = rows.length === single.length + (known ? 0 : upper.length);
    const above = !known || whole ? known : await datasetRows(system, upper, properties);
    const all = new Map([...(above ?? []), ...rows].map(row => [nameOf(row), row]));
    const kept = upper.map(name => all.get(name)).filter(row => row !== undefined);
    this.#keep(key, kept, upper.length);
    return all;
  }

  #recentRows(key: string): readonly ApiRow[] | undefined {
    const known = this.#recent?.get(key);
    return known && performance.now() < known.until ? known.rows : undefined;
  }

  /** Keeps an answer about ancestors, unless a recent one is kept or one of them is missing. */
  #keep(key: string, rows: readonly ApiRow[], wanted: number): void {
    if (this.#recentRows(key) || wanted === 0) return;
    if ((this.#recent?.size ?? 0) >= knownAnswers) this.#recent = undefined;
    this.#recent ??= new Map();
    if (rows.length === wanted) this.#recent.set(key, { rows, until: performance.now() + recentMs });
  }
}

/**
 * As Zfs.below; the answer needs the row that the parent inherits from. Datasets are asked for before their snapshots: a dataset that another
 * process makes again in between has another guid than the one that was read, and is not taken for it.
 */
async function entriesBelow(
  system: System,
  parent: string,
  types: readonly DatasetType[],
  properties: readonly string[],
  depth: Depth,
): Promise<(above: ApiRow | undefined) => readonly Entry[]> {
  const [tree, snapshots] = await Promise.all([
    treeOf(system, parent, properties, depth),
    types.includes("snapshot") ? snapshotRows(system, parent, properties, depth) : [],
  ]);
  if (tree.length === 0) await provePool(system, parent);
  const rows = new Map(tree.map(row => [nameOf(row), row]));
  const wanted = new Set(properties);
  return top =>
    [...tree, ...snapshots]
      .map(row => {
        const name = nameOf(row);
        return entryOf(row, [...properties, "type"], name === parent ? top : rows.get(above(name)), system);
      })
      .filter(({ name, properties: all }) => {
        return types.some(kind => kind === all.get("type")?.value) && levels(parent, name) <= depth;
      })
      .map(({ name, properties: all }) => ({ name, properties: new Map([...all].filter(([key]) => wanted.has(key))) }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Throws if the pool of a dataset does not exist, because its contents are unknown then. */
async function provePool(system: System, dataset: string): Promise<void> {
  const pool = poolOf(dataset);
  if ((await datasetRows(system, [pool], ["type"])).length === 0) throw absentPool(pool);
}

async function datasetRows(
  system: System,
  names: readonly string[],
  properties: readonly string[],
): Promise<readonly ApiRow[]> {
  if (names.length === 0) return [];
  const one = (name: string) =>
    rowsOf(system, "pool.dataset.query", [["id", "=", name]], { extra: { retrieve_children: false } });
  if (system.version < withResources) return (await Promise.all(names.map(one))).flat();
  const request = { paths: names, ...datasetFields(properties) };
  const rows = await present(system, "zfs.resource.query", request);
  if (rows.length > 0 || names.length === 1) return rows;
  // A missing one fails the query of all: ancestors usually exist, so they are read together, and all others one by one.
  const upper = names.filter(name => names.some(other => other.startsWith(`${name}/`)));
  const groups = [upper, ...names.filter(name => !upper.includes(name)).map(name => [name])];
  const parts = groups.length > 1 && upper.length > 0 ? groups : names.map(name => [name]);
  return (await Promise.all(parts.map(part => datasetRows(system, part, properties)))).flat();
}

/** A dataset and its descendants, as a flat list. */
async function treeOf(
  system: System,
  parent: string,
  properties: readonly string[],
  depth: number,
): Promise<readonly ApiRow[]> {
  const { version } = system;
  if (version < withResources) {
    // With another filter than the id, each dataset of the system is answered with all those below it, and again on its own ("flat").
    const extra = { retrieve_children: true, ...onlyProperties(properties) };
    return flat(await rowsOf(system, "pool.dataset.query", [["id", "=", parent]], { extra }));
  }
  const children = { get_children: true, ...(version >= withSnapshotResources && { max_depth: depth }) };
  const request = { paths: [parent], ...datasetFields(properties), ...children };
  return present(system, "zfs.resource.query", request);
}

/** The names of pools, and of datasets that contain others of the list. */
const upperOf = (names: readonly string[]): readonly string[] =>
  names.filter(name => !isSnapshot(name) && (!name.includes("/") || names.some(other => other.startsWith(`${name}/`))));

/** The parents, which show where user properties come from on versions that do not answer that. */
const headsOf = (names: readonly string[], properties: readonly string[], { version }: System): readonly string[] =>
  version >= withResources && wantsUser(properties) ? names.map(above).filter(name => name !== "") : [];

const absentPool = (name: string): ZfsError =>
  new ZfsError("pool-absent", `the pool "${name}" does not exist or is not imported`);

/** The entry of a row, whose form depends on the version, as does whether it names what it inherits from the row `top`. */
function entryOf(row: ApiRow, properties: readonly string[], top: ApiRow | undefined, { version }: System): Entry {
  const inherited = version >= withResources ? ((top?.["user_properties"] ?? {}) as ApiRow) : undefined;
  const isResource = version >= (isSnapshot(nameOf(row)) ? withSnapshotResources : withResources);
  return (isResource ? resourceEntry : shownEntry)(row, properties, inherited);
}

const flat = (rows: readonly ApiRow[]): readonly ApiRow[] =>
  rows.flatMap(row => [row, ...flat((row["children"] ?? []) as readonly ApiRow[])]);

/** The depth of a name below `parent`: 1 for its children and snapshots. */
function levels(parent: string, name: string): number {
  if (name === parent) return 0;
  if (name.startsWith(`${parent}@`)) return 1;
  if (!name.startsWith(`${parent}/`)) return Number.POSITIVE_INFINITY;
  return name.slice(parent.length).split(/[/@]/).length - 1;
}

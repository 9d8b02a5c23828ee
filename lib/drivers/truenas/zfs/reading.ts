import { type DatasetType, type Entries, type Entry, type PropertyQuery, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import type { Row } from "../api-error.ts";
import {
  nameOf,
  poolOf,
  present,
  resourceFields,
  rowsOf,
  wantsUser,
  withResources,
  withSnapshotResources,
} from "./queries.ts";
import { type Inherited, resourceEntry, shownEntry } from "./rows.ts";
import { SnapshotReader } from "./snapshots.ts";

/** Reading datasets and snapshots, with the requests of each version. */

const isSnapshot = (name: string): boolean => name.includes("@");
/** The dataset that a dataset or snapshot inherits from. */
const above = (name: string): string =>
  isSnapshot(name) ? name.slice(0, name.indexOf("@")) : name.slice(0, Math.max(0, name.lastIndexOf("/")));

/** How long the ancestors of volumes are assumed not to change, in milliseconds. */
const recentMs = 3000;
/** The number of answers about them that are kept. */
const knownAnswers = 16;

export class DatasetReader {
  readonly #api: Api;
  readonly #snapshots: SnapshotReader;
  readonly #recent = new Map<string, { readonly rows: readonly Row[]; readonly until: number }>();

  constructor(api: Api) {
    this.#api = api;
    this.#snapshots = new SnapshotReader(api);
  }

  /** As Zfs.read. */
  async read({ names, properties }: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    const { number } = await this.#api.version(signal);
    const rows = await this.#all(names, properties, number, signal);
    const found = new Map<string, Entry>();
    for (const name of names) {
      const row = rows.get(name);
      const inherited = number >= withResources ? userOf(rows.get(above(name)) ?? {}) : undefined;
      if (row) found.set(name, entryOf(row, properties, inherited, number));
      else if (!/[/@]/.test(name)) throw absentPool(name);
    }
    return found;
  }

  /** One dataset or snapshot; undefined if it does not exist. */
  async one(name: string, properties: readonly string[], signal: AbortSignal): Promise<Entry | undefined> {
    return (await this.read({ names: [name], properties }, signal)).get(name);
  }

  /**
   * Rows by name, also of the parents, which show what is inherited. Recent answers about ancestors are used if everything else exists:
   * if something is missing, its pool must be proved to exist.
   */
  async #all(
    names: readonly string[],
    properties: readonly string[],
    version: number,
    signal: AbortSignal,
    upperOnes: readonly string[] = upperOf(names),
  ): Promise<ReadonlyMap<string, Row>> {
    const upper = [...new Set([...upperOnes, ...headsOf(names, properties, version)])];
    const single = [...new Set(names)].filter(name => !upper.includes(name));
    const key = JSON.stringify([version, upper, properties]);
    const known = this.#known(key);
    const [datasets, ...snapshots] = await Promise.all([
      this.#datasets(
        [...(known ? [] : upper), ...single.filter(name => !isSnapshot(name))],
        properties,
        version,
        signal,
      ),
      ...single.filter(isSnapshot).map(name => this.#snapshots.one(name, properties, version, signal)),
    ]);
    const rows = [...datasets, ...snapshots.flat()];
    const whole = rows.length === single.length + (known ? 0 : upper.length);
    const read = !known || whole ? known : await this.#datasets(upper, properties, version, signal);
    const all = new Map([...(read ?? []), ...rows].map(row => [nameOf(row), row]));
    this.#keep(
      key,
      upper.map(name => all.get(name)).filter(row => row !== undefined),
      upper.length,
    );
    return all;
  }

  #known(key: string): readonly Row[] | undefined {
    const known = this.#recent.get(key);
    return known && performance.now() < known.until ? known.rows : undefined;
  }

  /** Keeps an answer about ancestors, unless a recent one is kept or one of them is missing. */
  #keep(key: string, rows: readonly Row[], wanted: number): void {
    if (this.#known(key) || wanted === 0) return;
    if (this.#recent.size >= knownAnswers) this.#recent.clear();
    if (rows.length === wanted) this.#recent.set(key, { rows, until: performance.now() + recentMs });
  }

  /** As Zfs.below. */
  async below(
    parent: string,
    types: readonly DatasetType[],
    properties: readonly string[],
    depth: 1 | 2,
    signal: AbortSignal,
  ): Promise<readonly Entry[]> {
    const { number } = await this.#api.version(signal);
    return (await this.#family(parent, types, properties, depth, number, signal))({});
  }

  /** Names of datasets up to two levels below `parent`; `along` is read at the same time and proves the pools in it. */
  async datasetsBelow(parent: string, along: readonly string[], signal: AbortSignal): Promise<readonly string[]> {
    const { number } = await this.#api.version(signal);
    const tree = await this.#tree(parent, ["type"], 2, number, signal);
    if (tree.length === 0 && !along.includes(poolOf(parent))) await this.#provePool(poolOf(parent), number, signal);
    return tree.map(nameOf).filter(name => [1, 2].includes(levels(parent, name)));
  }

  /** As below(); the answer needs the user properties that the parent inherits. */
  async #family(
    parent: string,
    types: readonly DatasetType[],
    properties: readonly string[],
    depth: 1 | 2,
    version: number,
    signal: AbortSignal,
  ): Promise<(above: Inherited) => readonly Entry[]> {
    const [tree, snapshots] = await Promise.all([
      this.#tree(parent, properties, depth, version, signal),
      types.includes("snapshot") ? this.#snapshots.below(parent, properties, depth, version, signal) : [],
    ]);
    if (tree.length === 0) await this.#provePool(poolOf(parent), version, signal);
    const users = new Map(tree.map(row => [nameOf(row), userOf(row)]));
    const wanted = new Set(properties);
    return top => {
      const from = (name: string) => (name === parent ? top : (users.get(above(name)) ?? {}));
      return [...tree, ...snapshots]
        .map(row =>
          entryOf(row, [...properties, "type"], version >= withResources ? from(nameOf(row)) : undefined, version),
        )
        .filter(
          ({ name, properties: all }) =>
            types.some(kind => kind === all.get("type")?.value) && levels(parent, name) <= depth,
        )
        .map(({ name, properties: all }) => ({
          name,
          properties: new Map([...all].filter(([key]) => wanted.has(key))),
        }))
        .sort((a, b) => (a.name < b.name ? -1 : 1));
    };
  }

  /** As Zfs.family. */
  async family(dataset: string, { names, properties }: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    const { number } = await this.#api.version(signal);
    const others = names.filter(name => name !== dataset);
    const types = ["filesystem", "volume", "snapshot"] as const;
    const [read, below] = await Promise.all([
      this.#all(others, properties, number, signal, [...others, above(dataset)]),
      this.#family(dataset, types, properties, 1, number, signal),
    ]);
    const shown = others.flatMap(name => {
      const row = read.get(name);
      const inherited = number >= withResources ? userOf(read.get(above(name)) ?? {}) : undefined;
      return row ? [entryOf(row, properties, inherited, number)] : [];
    });
    const parent = number >= withResources ? userOf(read.get(above(dataset)) ?? {}) : undefined;
    return new Map([...shown, ...below(parent)].map(entry => [entry.name, entry]));
  }

  /** Datasets directly below `parent` that have a snapshot with this name. */
  async holders(parent: string, snapshotName: string, signal: AbortSignal): Promise<readonly string[]> {
    const { number } = await this.#api.version(signal);
    const rows = await this.#snapshots.named(parent, snapshotName, number, signal);
    return rows.flatMap(row => {
      const [dataset = "", name] = nameOf(row).split("@");
      return name === snapshotName && levels(parent, dataset) === 1 ? [dataset] : [];
    });
  }

  /** Throws if a pool does not exist, because its contents are unknown then. */
  async #provePool(pool: string, version: number, signal: AbortSignal): Promise<void> {
    if ((await this.#datasets([pool], ["type"], version, signal)).length === 0) throw absentPool(pool);
  }

  async #datasets(
    names: readonly string[],
    properties: readonly string[],
    version: number,
    signal: AbortSignal,
  ): Promise<readonly Row[]> {
    if (names.length === 0) return [];
    const one = (name: string) =>
      rowsOf(this.#api, "pool.dataset.query", [[["id", "=", name]], { extra: { retrieve_children: false } }], signal);
    if (version < withResources) return (await Promise.all(names.map(one))).flat();
    const request = { paths: names, ...resourceFields(properties), get_source: true };
    const rows = await present(this.#api, "zfs.resource.query", [request], signal);
    if (rows.length > 0 || names.length === 1) return rows;
    // A missing one fails the query of all: ancestors usually exist, so they are read together, and all others one by one.
    const above = names.filter(name => names.some(other => other.startsWith(`${name}/`)));
    const groups = [above, ...names.filter(name => !above.includes(name)).map(name => [name])];
    const parts = groups.length > 1 && above.length > 0 ? groups : names.map(name => [name]);
    return (await Promise.all(parts.map(part => this.#datasets(part, properties, version, signal)))).flat();
  }

  /** A dataset and its descendants, as a flat list. */
  async #tree(
    parent: string,
    properties: readonly string[],
    depth: number,
    version: number,
    signal: AbortSignal,
  ): Promise<readonly Row[]> {
    if (version >= withResources) {
      const children =
        version >= withSnapshotResources ? { get_children: true, max_depth: depth } : { get_children: true };
      return present(
        this.#api,
        "zfs.resource.query",
        [{ paths: [parent], ...resourceFields(properties), get_source: true, ...children }],
        signal,
      );
    }
    const filters = [["id", "=", parent]];
    return flat(
      await rowsOf(this.#api, "pool.dataset.query", [filters, { extra: { retrieve_children: true } }], signal),
    );
  }
}

/** The names of pools, and of datasets that contain others of the list. */
const upperOf = (names: readonly string[]): readonly string[] =>
  names.filter(name => !isSnapshot(name) && (!name.includes("/") || names.some(other => other.startsWith(`${name}/`))));

/** The parents, which show where user properties come from on versions that do not answer that. */
const headsOf = (names: readonly string[], properties: readonly string[], version: number): readonly string[] =>
  version >= withResources && wantsUser(properties) ? names.map(above).filter(name => name !== "") : [];

const absentPool = (name: string): ZfsError =>
  new ZfsError("pool-absent", `the pool "${name}" does not exist or is not imported`);

/** The entry of a row, whose form depends on the version. */
function entryOf(row: Row, properties: readonly string[], inherited: Inherited, version: number): Entry {
  const isResource = version >= (isSnapshot(nameOf(row)) ? withSnapshotResources : withResources);
  return isResource ? resourceEntry(row, properties, inherited) : shownEntry(row, properties, inherited);
}

const userOf = (row: Row): Readonly<Record<string, unknown>> => (row["user_properties"] ?? {}) as Row;

const flat = (rows: readonly Row[]): readonly Row[] =>
  rows.flatMap(row => [row, ...flat((row["children"] ?? []) as readonly Row[])]);

/** The depth of a name below `parent`: 1 for its children and snapshots. */
function levels(parent: string, name: string): number {
  if (name === parent) return 0;
  if (name.startsWith(`${parent}@`)) return 1;
  if (!name.startsWith(`${parent}/`)) return Number.POSITIVE_INFINITY;
  return name.slice(parent.length).split(/[/@]/).length - 1;
}

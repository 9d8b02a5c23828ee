import { type Entries, type Entry, type Kind, type Look, ZfsError } from "../../zfs/zfs.ts";
import { isMissing } from "../api-error.ts";
import type { Api } from "../client.ts";
import { type Inherited, resourceEntry, shownEntry } from "./rows.ts";
import { isUserProperty } from "./values.ts";

/** Reading datasets and snapshots, with the requests that each version has for it. */

type Row = Readonly<Record<string, unknown>>;

/** zfs.resource.query: only what is named is opened. */
export const withResources = 2510;
/** zfs.resource.snapshot.* and zfs.resource.destroy; snapshots take properties at their creation only. */
export const withSnapshotResources = 2600;

const isSnapshot = (name: string): boolean => name.includes("@");
/** The dataset that one inherits from. */
const above = (name: string): string =>
  isSnapshot(name) ? name.slice(0, name.indexOf("@")) : name.slice(0, Math.max(0, name.lastIndexOf("/")));
const poolOf = (name: string): string => name.split(/[/@]/)[0] ?? "";

/** The service of snapshots before there were resources of them. */
export const snapshotService = (version: number): string =>
  version >= withResources ? "pool.snapshot" : "zfs.snapshot";

/** How long the datasets above volumes are taken to be as they were, in milliseconds. */
const latelyMs = 3000;

export class Reading {
  readonly #api: Api;
  readonly #lately = new Map<string, { readonly rows: readonly Row[]; readonly until: number }>();

  constructor(api: Api) {
    this.#api = api;
  }

  /** As Zfs.read. */
  async read({ names, properties }: Look, signal: AbortSignal): Promise<Entries> {
    const { number } = await this.#api.version(signal);
    const rows = await this.#all(names, properties, number, signal);
    const found = new Map<string, Entry>();
    for (const name of names) {
      const row = rows.get(name);
      const inherited = number >= withResources ? userOf(rows.get(above(name)) ?? {}) : undefined;
      if (row) found.set(name, entryOf(row, properties, inherited, number));
      else if (!/[/@]/.test(name)) throw new ZfsError("pool-absent", `the pool "${name}" is not there or not imported`);
    }
    return found;
  }

  /** One dataset or snapshot, or undefined. */
  async one(name: string, properties: readonly string[], signal: AbortSignal): Promise<Entry | undefined> {
    return (await this.read({ names: [name], properties }, signal)).get(name);
  }

  /**
   * Rows by name, with those of the datasets above, which tell what is inherited. A query by paths fails when one is missing; what
   * is above is usually there, so it is asked for together and the rest one by one.
   */
  async #all(
    names: readonly string[],
    properties: readonly string[],
    version: number,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, Row>> {
    const heads = version >= withResources && wantsUser(properties) ? names.map(above).filter(name => name !== "") : [];
    const isAbove = (name: string) => !name.includes("/") || names.some(other => other.startsWith(`${name}/`));
    const shared = names.filter(name => !isSnapshot(name) && (heads.includes(name) || isAbove(name)));
    const upper = [...new Set([...shared, ...heads])];
    const single = [...new Set(names)].filter(name => !upper.includes(name));
    const rows = await Promise.all([
      this.#upper(upper, properties, version, signal),
      ...single.map(name =>
        isSnapshot(name)
          ? this.#snapshot(name, properties, version, signal)
          : this.#datasets([name], properties, version, signal),
      ),
    ]);
    return new Map(rows.flat().map(row => [nameOf(row), row]));
  }

  /** The datasets above volumes hardly ever change; what was read of them lately is read again only after a while. */
  async #upper(
    names: readonly string[],
    properties: readonly string[],
    version: number,
    signal: AbortSignal,
  ): Promise<readonly Row[]> {
    const key = JSON.stringify([version, names, properties]);
    const known = this.#lately.get(key);
    if (known && performance.now() < known.until) return known.rows;
    const rows = await this.#datasets(names, properties, version, signal);
    this.#lately.clear();
    if (rows.length === names.length) this.#lately.set(key, { rows, until: performance.now() + latelyMs });
    return rows;
  }

  /** As Zfs.below. */
  async below(
    parent: string,
    kinds: readonly Kind[],
    properties: readonly string[],
    depth: 1 | 2,
    signal: AbortSignal,
  ): Promise<readonly Entry[]> {
    const { number } = await this.#api.version(signal);
    return (await this.#family(parent, kinds, properties, depth, number, signal))({});
  }

  /** As below(), for when it is known what the parent itself inherits. */
  async #family(
    parent: string,
    kinds: readonly Kind[],
    properties: readonly string[],
    depth: 1 | 2,
    version: number,
    signal: AbortSignal,
  ): Promise<(above: Inherited) => readonly Entry[]> {
    const [tree, snapshots] = await Promise.all([
      this.#tree(parent, properties, depth, version, signal),
      kinds.includes("snapshot") ? this.#snapshots(parent, properties, depth, version, signal) : [],
    ]);
    if (tree.length === 0) await this.read({ names: [poolOf(parent)], properties: ["type"] }, signal);
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
            kinds.some(kind => kind === all.get("type")?.value) && levels(parent, name) <= depth,
        )
        .map(({ name, properties: all }) => ({
          name,
          properties: new Map([...all].filter(([key]) => wanted.has(key))),
        }))
        .sort((a, b) => (a.name < b.name ? -1 : 1));
    };
  }

  /** As Zfs.family. */
  async family(dataset: string, { names, properties }: Look, signal: AbortSignal): Promise<Entries> {
    const { number } = await this.#api.version(signal);
    const others = names.filter(name => name !== dataset);
    const kinds = ["filesystem", "volume", "snapshot"] as const;
    const [read, below] = await Promise.all([
      this.#all([...others, above(dataset)], properties, number, signal),
      this.#family(dataset, kinds, properties, 1, number, signal),
    ]);
    const shown = others.flatMap(name => {
      const row = read.get(name);
      const inherited = number >= withResources ? userOf(read.get(above(name)) ?? {}) : undefined;
      return row ? [entryOf(row, properties, inherited, number)] : [];
    });
    const parent = number >= withResources ? userOf(read.get(above(dataset)) ?? {}) : undefined;
    return new Map([...shown, ...below(parent)].map(entry => [entry.name, entry]));
  }

  /** As Zfs.holders. */
  async holders(parent: string, snapshotName: string, signal: AbortSignal): Promise<readonly string[]> {
    const { number } = await this.#api.version(signal);
    const rows = await this.#named(parent, snapshotName, number, signal);
    return rows.flatMap(row => {
      const [dataset = "", name] = nameOf(row).split("@");
      return name === snapshotName && levels(parent, dataset) === 1 ? [dataset] : [];
    });
  }

  /** Snapshots by their name alone, with as little of them as the version lets one ask for. */
  #named(parent: string, name: string, version: number, signal: AbortSignal): Promise<readonly Row[]> {
    if (version >= withSnapshotResources)
      return this.#present("zfs.resource.snapshot.query", [{ paths: [parent], recursive: true }], signal);
    const query = `${snapshotService(version)}.query`;
    // With the pool and names alone nothing but names is read.
    if (version >= withResources)
      return this.#rows(query, [[["pool", "=", poolOf(parent)]], { select: ["name"] }], signal);
    return this.#rows(query, [[["snapshot_name", "=", name]], {}], signal);
  }

  async #datasets(
    names: readonly string[],
    properties: readonly string[],
    version: number,
    signal: AbortSignal,
  ): Promise<readonly Row[]> {
    if (names.length === 0) return [];
    const one = (name: string) =>
      this.#rows("pool.dataset.query", [[["id", "=", name]], { extra: { retrieve_children: false } }], signal);
    if (version < withResources) return (await Promise.all(names.map(one))).flat();
    const request = { paths: names, ...resourceFields(properties), get_source: true };
    const rows = await this.#present("zfs.resource.query", [request], signal);
    if (rows.length > 0 || names.length === 1) return rows;
    return (await Promise.all(names.map(name => this.#datasets([name], properties, version, signal)))).flat();
  }

  #snapshot(
    name: string,
    properties: readonly string[],
    version: number,
    signal: AbortSignal,
  ): Promise<readonly Row[]> {
    if (version >= withSnapshotResources)
      return this.#present("zfs.resource.snapshot.query", [{ paths: [name], ...resourceFields(properties) }], signal);
    return this.#rows(`${snapshotService(version)}.query`, [[["id", "=", name]], {}], signal);
  }

  /** A dataset and what is below it, as a flat list. */
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
      return this.#present(
        "zfs.resource.query",
        [{ paths: [parent], ...resourceFields(properties), get_source: true, ...children }],
        signal,
      );
    }
    const filters = [["id", "=", parent]];
    return flat(await this.#rows("pool.dataset.query", [filters, { extra: { retrieve_children: true } }], signal));
  }

  #snapshots(
    parent: string,
    properties: readonly string[],
    depth: number,
    version: number,
    signal: AbortSignal,
  ): Promise<readonly Row[]> {
    if (version >= withSnapshotResources) {
      const request = { paths: [parent], recursive: depth > 1, ...resourceFields(properties) };
      return this.#present("zfs.resource.snapshot.query", [request], signal);
    }
    const filters = depth > 1 ? [["pool", "=", poolOf(parent)]] : [["dataset", "=", parent]];
    return this.#rows(`${snapshotService(version)}.query`, [filters, {}], signal);
  }

  async #rows(method: string, params: readonly unknown[], signal: AbortSignal): Promise<readonly Row[]> {
    return (await this.#api.call(method, params, signal)) as readonly Row[];
  }

  /** Queries by path refuse one that is not there. */
  async #present(method: string, params: readonly unknown[], signal: AbortSignal): Promise<readonly Row[]> {
    try {
      return await this.#rows(method, params, signal);
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
  }
}

/** Which of the two forms a row has follows from the request that the version has for it. */
function entryOf(row: Row, properties: readonly string[], inherited: Inherited, version: number): Entry {
  const isResource = version >= (isSnapshot(nameOf(row)) ? withSnapshotResources : withResources);
  return isResource ? resourceEntry(row, properties, inherited) : shownEntry(row, properties, inherited);
}

const nameOf = (row: Row): string => String(row["id"] ?? row["name"]);
const userOf = (row: Row): Readonly<Record<string, unknown>> => (row["user_properties"] ?? {}) as Row;
const wantsUser = (properties: readonly string[]): boolean => properties.some(isUserProperty);

function resourceFields(properties: readonly string[]): object {
  const native = properties.filter(name => !isUserProperty(name) && name !== "type");
  // An empty list would mean the usual ones.
  return { properties: native.length > 0 ? native : null, get_user_properties: wantsUser(properties) };
}

const flat = (rows: readonly Row[]): readonly Row[] =>
  rows.flatMap(row => [row, ...flat((row["children"] ?? []) as readonly Row[])]);

/** How far below `parent` something is: 1 for its children and its snapshots. */
function levels(parent: string, name: string): number {
  if (name === parent) return 0;
  if (name.startsWith(`${parent}@`)) return 1;
  if (!name.startsWith(`${parent}/`)) return Number.POSITIVE_INFINITY;
  return name.slice(parent.length).split(/[/@]/).length - 1;
}

import type { Call } from "../core/call.ts";
import { CsiError, hasCode, messageOf } from "../core/errors.ts";
import type { Page, PageRequest } from "../drivers/driver.ts";
import type { Connection, StorageFigures } from "./connection.ts";
import type { RouterContext } from "./context.ts";
import type { RoutedSnapshot, RoutedVolume } from "./handles.ts";
import type { HealthMonitor } from "./health-monitor.ts";
import { type UnhealthyVolume, unhealthyPage } from "./health-pages.ts";
import { connectionsAtOnce } from "./storage-calls.ts";
import {
  badToken,
  filterTokens,
  healthTokens,
  type ListTokens,
  type PagePosition,
  snapshotTokens,
  volumeTokens,
} from "./tokens.ts";

/** The most entries of one answer, however many are requested: with 4 KiB of context each they still fit a 4 MiB gRPC message. */
const largestPage = 800;

const pageOf = (max: number): number => Math.min(max || largestPage, largestPage);

const emptyPage = { items: [], next: undefined };

/** The requested page of a listing. */
export interface ListRequest {
  /** 0: no limit. */
  readonly max: number;
  /** Empty for the first page. */
  readonly token: string;
}

/** The filter of ListSnapshots. */
export interface SnapshotFilter {
  /** Handles; empty: no filter. */
  readonly snapshot: string;
  readonly volume: string;
}

/** Where a page begins: a connection, and its own token. */
type Start = PagePosition;

/** One of the listings: its name, how a connection returns a page of it, and its tokens. */
interface ListingKind<T> {
  readonly name: string;
  readonly list: (connection: Connection, page: PageRequest, call: Call) => Promise<Page<T>>;
  readonly tokens: ListTokens;
}

/** ListVolumes, ListSnapshots and ControllerListVolumeHealth over all connections in the order of their names, without state between pages. */
export class Listing {
  readonly #context: RouterContext;
  readonly #health: HealthMonitor;

  constructor(context: RouterContext, health: HealthMonitor) {
    this.#context = context;
    this.#health = health;
  }

  /** ListVolumes. Throws "aborted" for a token of another listing, "unavailable" for a connection that cannot answer. */
  volumes(request: ListRequest, call: Call): Promise<Page<RoutedVolume>> {
    const { connections, handles } = this.#context;
    const list = async (connection: Connection, page: PageRequest, own: Call) => {
      const found = (await connection.driver.inventory?.list(page, own)) ?? emptyPage;
      const record = connections.record(connection.name);
      if (record) countPage(record.figures, page, found);
      return { ...found, items: found.items.map(volume => handles.volume(connection, volume)) };
    };
    return this.#joined(request, call, { name: "volumes", list, tokens: volumeTokens });
  }

  /**
   * ControllerListVolumeHealth: volumes with a condition. Throws like `volumes`: an omitted volume would count as healthy, so a storage
   * system that cannot be checked is treated like one that cannot be listed.
   */
  health(request: ListRequest, call: Call): Promise<Page<UnhealthyVolume>> {
    const list = (connection: Connection, page: PageRequest, own: Call) =>
      unhealthyPage({ health: this.#health, handles: this.#context.handles }, connection, page, own);
    return this.#joined(request, call, { name: "health", list, tokens: healthTokens });
  }

  /** ListSnapshots. A filter concerns only one connection; an id that csimux cannot have created lists nothing. */
  async snapshots(request: ListRequest, filter: SnapshotFilter, call: Call): Promise<Page<RoutedSnapshot>> {
    if (filter.snapshot !== "") {
      // One snapshot is one page, so there is no token to continue with.
      if (request.token !== "") throw badToken();
      return { items: await this.#oneSnapshot(filter, call), next: undefined };
    }
    if (filter.volume !== "") return this.#ofVolume(request, filter.volume, call);
    const list = (connection: Connection, page: PageRequest, own: Call) =>
      this.#snapshotsOn(connection, undefined, page, own);
    return this.#joined(request, call, { name: "snapshots", list, tokens: snapshotTokens });
  }

  async #ofVolume(request: ListRequest, volume: string, call: Call): Promise<Page<RoutedSnapshot>> {
    const { calls, connections, handles } = this.#context;
    const handle = handles.parse(volume, "volume");
    if (!handle) {
      if (request.token !== "") throw badToken();
      return emptyPage;
    }
    const tokens = filterTokens(handle);
    const token = request.token === "" ? undefined : tokens.read(request.token);
    const page = { token, max: pageOf(request.max) };
    using lease = await connections.lease(handle.connection, "retry");
    const list = () => this.#snapshotsOn(lease.connection, handle.id, page, call);
    const { items, next } = await calls.make(lease.connection, list);
    return { items, next: next && tokens.write(next) };
  }

  async #oneSnapshot(filter: SnapshotFilter, call: Call): Promise<readonly RoutedSnapshot[]> {
    const { calls, connections, handles } = this.#context;
    const handle = handles.parse(filter.snapshot, "snapshot");
    if (!handle) return [];
    using lease = await connections.lease(handle.connection, "retry");
    const { snapshots } = lease.connection.driver;
    if (!snapshots) return [];
    try {
      const snapshot = await calls.make(lease.connection, () => snapshots.get(handle.id, call));
      const found = handles.snapshot(lease.connection, snapshot);
      const isWanted = filter.volume === "" || this.#isSame(filter.volume, found.volumeId);
      return isWanted ? [found] : [];
    } catch (error) {
      if (hasCode(error, "not-found")) return [];
      throw error;
    }
  }

  /** Whether two ids in any form belong to the same volume. */
  #isSame(...ids: readonly [string, string]): boolean {
    const [one, other] = ids.map(id => this.#context.handles.parse(id, "volume"));
    return one !== undefined && one.connection === other?.connection && one.id === other.id;
  }

  /** One page of a connection's snapshots; empty if the driver has none. */
  async #snapshotsOn(connection: Connection, volumeId: string | undefined, page: PageRequest, call: Call) {
    const found = (await connection.driver.snapshots?.list({ volumeId }, page, call)) ?? emptyPage;
    return { ...found, items: found.items.map(snapshot => this.#context.handles.snapshot(connection, snapshot)) };
  }

  /** Joins equal listings that run at the same time: each makes every storage system list all it has. */
  #joined<T>(request: ListRequest, call: Call, kind: ListingKind<T>): Promise<Page<T>> {
    // The secrets of a caller may decide what it sees.
    if (Object.keys(call.secrets).length > 0) return this.#all(request, call, kind);
    const key = `list of ${kind.name}, ${request.max} from "${request.token}"`;
    return this.#context.jobs.run(key, "", call, own => this.#all(request, own, kind));
  }

  /** All connections, or the only one of the driver name. */
  async #names(): Promise<readonly string[]> {
    const { connections, settings } = this.#context;
    const { single } = settings();
    return single === undefined ? connections.names() : [single];
  }

  async #all<T>(request: ListRequest, call: Call, kind: ListingKind<T>): Promise<Page<T>> {
    const { tokens } = kind;
    const start = request.token === "" ? undefined : tokens.read(request.token);
    const max = pageOf(request.max);
    const names = (await this.#names()).filter(name => !start || name >= start.connection);
    const pages = await this.#pages(names, start, max, call, kind);
    const items: T[] = [];
    for (const [index, name] of names.entries()) {
      const page = pages[index];
      if (!page) continue;
      const room = max - items.length;
      if (page.items.length > room || (room === 0 && page.items.length > 0))
        return this.#again(name, max, items, call, kind);
      items.push(...page.items);
      if (page.next !== undefined) return { items, next: tokens.write({ connection: name, inner: page.next }) };
    }
    return { items, next: undefined };
  }

  /**
   * The pages of the first connections, in their order, until they fill `max` entries and one more is known. A connection is asked while
   * others are only if those are not expected to fill the page: its answer would be thrown away, and it lists all it has for that.
   */
  async #pages<T>(names: readonly string[], start: Start | undefined, max: number, call: Call, kind: ListingKind<T>) {
    const pages: (Page<T> | undefined)[] = [];
    const running = new Map<string, Promise<void>>();
    let known = 0;
    let ends = false;
    // Of connections that were listed from their beginning.
    const whole = { count: 0, items: 0 };
    const expected = (name: string): number => {
      const { figures } = this.#context.connections.record(name) ?? {};
      const unknown = whole.count > 0 ? whole.items / whole.count : start ? max : 0;
      return figures?.volumes?.value ?? unknown;
    };
    const ask = async (name: string, index: number) => {
      const token = name === start?.connection ? start.inner : undefined;
      // A full page still needs to know whether anything follows.
      const page = await this.#page(name, { token, max: Math.max(1, max - known) }, call, kind);
      pages[index] = page;
      running.delete(name);
      known += page?.items.length ?? 0;
      ends ||= page?.next !== undefined;
      if (!token) whole.count++;
      if (!token) whole.items += page?.items.length ?? 0;
    };
    for (const [index, name] of names.entries()) {
      const isFull = () => [...running.keys()].reduce((sum, each) => sum + expected(each), known) >= max;
      while (running.size > 0 && (running.size >= connectionsAtOnce || isFull())) await Promise.race(running.values());
      // More follows. Without this bound, pages would pile up behind a slow connection.
      if (ends || known > max) break;
      const asked = ask(name, index);
      asked.catch(() => {});
      running.set(name, asked);
    }
    await Promise.all(running.values());
    return pages;
  }

  /** The page ends inside a connection that returned more than there is room left: lists that many again. */
  async #again<T>(name: string, most: number, items: T[], call: Call, kind: ListingKind<T>): Promise<Page<T>> {
    const max = most - items.length;
    const { write } = kind.tokens;
    if (max === 0) return { items, next: write({ connection: name, inner: "" }) };
    const page = await this.#page(name, { token: undefined, max }, call, kind);
    items.push(...(page?.items ?? []));
    return { items, next: write({ connection: name, inner: page?.next ?? "" }) };
  }

  async #page<T>(name: string, page: PageRequest, call: Call, { list }: ListingKind<T>): Promise<Page<T> | undefined> {
    const token = page.token === "" ? undefined : page.token;
    try {
      // The log has the connections that a listing does not show.
      return await this.#context.connections.useIfHealthy(name, connection =>
        this.#context.calls.read("listing", connection, call, own => list(connection, { token, max: page.max }, own)),
      );
    } catch (error) {
      if (hasCode(error, "aborted")) throw error;
      const reason = messageOf(error);
      if (this.#context.settings().listing === "partial") {
        call.log.warn("a connection is missing from the listing", { connection: name, reason });
        return undefined;
      }
      const text = `connection "${name}" cannot be listed, and an incomplete list would look as if volumes had been deleted: ${reason}`;
      throw new CsiError("unavailable", text, { cause: error });
    }
  }
}

/** Counts the volumes of a connection from its pages. Only a listing that was followed to its end shows their number. */
function countPage(figures: StorageFigures, { token }: PageRequest, { items, next }: Page<unknown>): void {
  const { listing } = figures;
  if (token !== undefined && listing?.next !== token) return;
  const count = items.length + (token === undefined ? 0 : (listing?.count ?? 0));
  figures.listing = next === undefined ? undefined : { next, count };
  if (next === undefined) figures.volumes = { value: count, at: Date.now() };
}

import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Page, PageRequest } from "../drivers/driver.ts";
import type { Connection } from "./connection.ts";
import type { Handles } from "./handles.ts";
import type { HealthMonitor } from "./health-monitor.ts";
import { type UnhealthyVolume, unhealthyPage } from "./health-pages.ts";
import type { ResponseTimeout } from "./response-timeout.ts";
import { type RoutedSnapshot, type RoutedVolume, routedSnapshot, routedVolume } from "./routed.ts";
import type { RouterContext } from "./router-context.ts";
import { badToken, filterTokens, healthTokens, type ListTokens, snapshotTokens, volumeTokens } from "./tokens.ts";

/** The most entries of one answer, however many are asked for: with 4 KiB of context each they still fit a 4 MiB gRPC message. */
const largestPage = 800;

const pageOf = (max: number): number => Math.min(max || largestPage, largestPage);

/** How many connections are asked at the same time. */
const width = 16;

/** Which page of a listing is wanted. */
export interface ListRequest {
  /** 0: no limit asked for. */
  readonly max: number;
  /** Empty for the first page. */
  readonly token: string;
}

/** What ListSnapshots is narrowed down to. */
export interface SnapshotFilter {
  /** Handles; empty: not filtered by it. */
  readonly snapshot: string;
  readonly volume: string;
}

/** One of the two listings: what it is called, how a connection gives a page of it, and its tokens. */
interface ListingKind<T> {
  readonly name: string;
  readonly list: (connection: Connection, page: PageRequest, call: Call) => Promise<Page<T>>;
  readonly tokens: ListTokens;
}

/** ListVolumes, ListSnapshots and ControllerListVolumeHealth over all connections in the order of their names, without state between pages. */
export class Listing {
  readonly #common: RouterContext;
  readonly #patience: ResponseTimeout;
  readonly #health: HealthMonitor;

  constructor(common: RouterContext, patience: ResponseTimeout, health: HealthMonitor) {
    this.#common = common;
    this.#patience = patience;
    this.#health = health;
  }

  /** ListVolumes. Throws "aborted" for a token of another listing, "unavailable" for a connection that cannot answer. */
  volumes(request: ListRequest, call: Call): Promise<Page<RoutedVolume>> {
    const list = async (connection: Connection, page: PageRequest, own: Call) => {
      const found = await volumesOf(this.#common.handles, connection, page, own);
      this.#common.figures.page(connection.name, page, found);
      return found;
    };
    return this.#joined(request, call, { name: "volumes", list, tokens: volumeTokens });
  }

  /**
   * ControllerListVolumeHealth: volumes with which something is wrong. Throws as `volumes`: one that is left out would count as
   * well, so a storage that cannot be looked at is treated as one that cannot be listed.
   */
  health(request: ListRequest, call: Call): Promise<Page<UnhealthyVolume>> {
    const list = (connection: Connection, page: PageRequest, own: Call) =>
      unhealthyPage({ health: this.#health, handles: this.#common.handles }, connection, page, own);
    return this.#joined(request, call, { name: "health", list, tokens: healthTokens });
  }

  /** A filter touches only its own connection; an id that csimux cannot have made lists nothing. */
  async snapshots(request: ListRequest, filter: SnapshotFilter, call: Call): Promise<Page<RoutedSnapshot>> {
    if (filter.snapshot !== "") {
      // One snapshot is one page, so there is no token that it could be continued with.
      if (request.token !== "") throw badToken();
      return { items: await this.#oneSnapshot(filter, call), next: undefined };
    }
    if (filter.volume !== "") return this.#ofVolume(request, filter.volume, call);
    const list = (connection: Connection, page: PageRequest, own: Call) =>
      snapshotsOf(this.#common.handles, connection, undefined, page, own);
    return this.#joined(request, call, { name: "snapshots", list, tokens: snapshotTokens });
  }

  async #ofVolume(request: ListRequest, volume: string, call: Call): Promise<Page<RoutedSnapshot>> {
    const handle = this.#common.handles.parse(volume, "volume");
    if (!handle) {
      if (request.token !== "") throw badToken();
      return { items: [], next: undefined };
    }
    const tokens = filterTokens(handle);
    const token = request.token === "" ? undefined : tokens.read(request.token);
    return this.#common.connections.use(handle.connection, "retry", async connection => {
      const page = { token, max: pageOf(request.max) };
      const { items, next } = await this.#common.breakers.ask(connection, () =>
        snapshotsOf(this.#common.handles, connection, handle.id, page, call),
      );
      return { items, next: next && tokens.write(next) };
    });
  }

  async #oneSnapshot(filter: SnapshotFilter, call: Call): Promise<readonly RoutedSnapshot[]> {
    const handle = this.#common.handles.parse(filter.snapshot, "snapshot");
    if (!handle) return [];
    const found = await this.#common.connections.use(handle.connection, "retry", async connection => {
      try {
        const { snapshots } = connection.driver;
        const snapshot =
          snapshots && (await this.#common.breakers.ask(connection, () => snapshots.get(handle.id, call)));
        return snapshot && routedSnapshot(this.#common.handles, connection, snapshot);
      } catch (error) {
        if (error instanceof CsiError && error.code === "not-found") return undefined;
        throw error;
      }
    });
    return found && (filter.volume === "" || this.#same(filter.volume, found.volumeId)) ? [found] : [];
  }

  /** Whether an id from outside, in whatever form, is that of the volume with this handle. */
  #same(text: string, volume: string): boolean {
    const [one, other] = [text, volume].map(each => this.#common.handles.parse(each, "volume"));
    return one !== undefined && one.connection === other?.connection && one.id === other.id;
  }

  /** Equal listings that run at the same time are one: each alone makes every storage walk through all it has. */
  #joined<T>(request: ListRequest, call: Call, kind: ListingKind<T>): Promise<Page<T>> {
    // Who brings secrets gets what these secrets may see.
    if (Object.keys(call.secrets).length > 0) return this.#all(request, call, kind);
    const key = `list of ${kind.name}, ${request.max} from "${request.token}"`;
    return this.#common.jobs.run(key, "", call, own => this.#all(request, own, kind));
  }

  /** A driver that is one connection lists that one. */
  async #names(): Promise<readonly string[]> {
    const { connections, settings } = this.#common;
    const { single } = settings();
    return single === undefined ? connections.names() : [single];
  }

  async #all<T>(request: ListRequest, call: Call, kind: ListingKind<T>): Promise<Page<T>> {
    const { tokens } = kind;
    const start = request.token === "" ? undefined : tokens.read(request.token);
    const max = pageOf(request.max);
    const names = (await this.#names()).filter(name => !start || name >= start.connection);
    // All pages that are there belong to connections before the one that is asked next.
    let known = 0;
    let ends = false;
    const pages = await mapLimit(names, width, async name => {
      // The page is full, and it is known that more follows. Without this bound, pages would pile up behind a slow connection.
      if (ends || known > max) return undefined;
      const token = name === start?.connection ? start.inner : undefined;
      // A full page still has to know whether anything follows.
      const page = await this.#page(name, { token, max: Math.max(1, max - known) }, call, kind);
      known += page?.items.length ?? 0;
      ends ||= page?.next !== undefined;
      return page;
    });
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

  /** The page ends inside a connection that was asked for more than there is room left: ask it again for the rest. */
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
      // A listing shows the connections that are in order; the log has said which are not.
      return await this.#common.connections.useIfHealthy(name, connection =>
        this.#common.breakers.ask(connection, () =>
          this.#patience.ask(connection, call, own => list(connection, { token, max: page.max }, own)),
        ),
      );
    } catch (error) {
      if (error instanceof CsiError && error.code === "aborted") throw error;
      // Only another driver below this one finds out that late that it has no such list.
      if (error instanceof CsiError && error.code === "unimplemented") return undefined;
      const reason = error instanceof Error ? error.message : String(error);
      if (this.#common.settings().listing === "partial") {
        call.log.warn("a connection is missing from the listing", { connection: name, reason });
        return undefined;
      }
      throw new CsiError(
        "unavailable",
        `connection "${name}" cannot be listed, and a shorter list would read as deletion: ${reason}`,
        {
          cause: error,
        },
      );
    }
  }
}

/** One page of a connection's volumes; empty when the driver cannot list. */
async function volumesOf(
  handles: Handles,
  connection: Connection,
  page: PageRequest,
  call: Call,
): Promise<Page<RoutedVolume>> {
  const { inventory } = connection.driver;
  if (!inventory) return { items: [], next: undefined };
  const { items, next } = await inventory.list(page, call);
  return { items: items.map(volume => routedVolume(handles, connection, volume)), next };
}

/** One page of a connection's snapshots with handles; empty when the driver has none. */
async function snapshotsOf(
  handles: Handles,
  connection: Connection,
  volumeId: string | undefined,
  page: PageRequest,
  call: Call,
): Promise<Page<RoutedSnapshot>> {
  const { snapshots } = connection.driver;
  if (!snapshots) return { items: [], next: undefined };
  const { items, next } = await snapshots.list({ volumeId }, page, call);
  return { items: items.map(snapshot => routedSnapshot(handles, connection, snapshot)), next };
}

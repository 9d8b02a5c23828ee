import type { Log } from "../core/call.ts";
import type { CacheTimeout } from "../core/proxy.ts";
import type { Driver } from "../drivers/driver.ts";
import type { Connection } from "./connection.ts";

/** An open connection, what it was opened from, and what uses it. */
export interface Entry {
  readonly connection: Connection;
  readonly text: string;
  readonly defaults: object;
  leases: number;
  /** Pieces of work that go on whether or not a call still waits for them. */
  kept: number;
  /** Another one has its name, or none; it is closed when nothing uses it any more. */
  retired: boolean;
  /** When its last call ended (Date.now()). */
  idleSince: number;
}

/** The open connections by name. Each stays open while a call uses it, and then as long as `cacheTimeoutMinutes` says. */
export class Pool {
  readonly #timeout: CacheTimeout;
  readonly #log: Log;
  readonly #entries = new Map<string, Entry>();
  /** Every connection that is open, those that others have replaced included. */
  readonly #open = new WeakMap<Driver, Entry>();
  readonly #closing = new Set<Promise<void>>();
  #sweep: ReturnType<typeof setTimeout> | undefined;

  constructor(timeout: CacheTimeout, log: Log) {
    this.#timeout = timeout;
    this.#log = log;
  }

  /** The connection that has this name now. */
  get(name: string): Entry | undefined {
    return this.#entries.get(name);
  }

  /** Takes a connection in, in the place of the one that has its name now. */
  add(connection: Connection, text: string, defaults: object): Entry {
    const old = this.#entries.get(connection.name);
    if (old) this.#retire(old);
    const entry: Entry = { connection, text, defaults, leases: 0, kept: 0, retired: false, idleSince: 0 };
    this.#entries.set(connection.name, entry);
    this.#open.set(connection.driver, entry);
    return entry;
  }

  /** Runs `work` on an entry, which is not closed until that settles. */
  async lease<T>(entry: Entry, work: (connection: Connection) => Promise<T>): Promise<T> {
    entry.leases++;
    try {
      return await work(entry.connection);
    } finally {
      entry.leases--;
      this.#released(entry);
    }
  }

  /** Keeps a connection open until `work` has settled, which no call may be waiting for by then. */
  keep(connection: Pick<Connection, "driver">, work: Promise<unknown>): void {
    const entry = this.#open.get(connection.driver);
    if (!entry) return;
    entry.kept++;
    const settled = () => {
      entry.kept--;
      this.#released(entry);
    };
    work.then(settled, settled);
  }

  /** Lets a name go: its connection is closed as soon as nobody uses it. */
  drop(name: string): void {
    const entry = this.#entries.get(name);
    if (!entry) return;
    this.#entries.delete(name);
    this.#retire(entry);
  }

  /** Closes every connection that is not in use and waits for the closing. */
  async close(): Promise<void> {
    clearTimeout(this.#sweep);
    for (const name of [...this.#entries.keys()]) this.drop(name);
    await Promise.allSettled(this.#closing);
  }

  #released(entry: Entry): void {
    if (isUsed(entry)) return;
    if (entry.retired) this.#close(entry);
    else if (this.#timeout.kind === "none") this.drop(entry.connection.name);
    else if (this.#timeout.kind === "idle") {
      entry.idleSince = Date.now();
      this.#schedule(this.#timeout.ms);
    }
  }

  #schedule(ms: number): void {
    if (this.#sweep) return;
    this.#sweep = setTimeout(() => this.#dropIdle(), Math.min(ms, 2 ** 31 - 1));
    this.#sweep.unref();
  }

  #dropIdle(): void {
    this.#sweep = undefined;
    if (this.#timeout.kind !== "idle") return;
    const { ms } = this.#timeout;
    const now = Date.now();
    let next = Number.POSITIVE_INFINITY;
    for (const [name, entry] of this.#entries) {
      if (isUsed(entry)) continue;
      const left = entry.idleSince + ms - now;
      if (left <= 0) this.drop(name);
      else next = Math.min(next, left);
    }
    if (next < Number.POSITIVE_INFINITY) this.#schedule(next);
  }

  #retire(entry: Entry): void {
    entry.retired = true;
    if (!isUsed(entry)) this.#close(entry);
  }

  #close(entry: Entry): void {
    const { connection } = entry;
    const closed = connection.driver.close?.().catch(cause => {
      this.#log.warn(`connection "${connection.name}" did not close cleanly`, {
        connection: connection.name,
        cause: String(cause),
      });
    });
    if (!closed) return;
    this.#closing.add(closed);
    void closed.finally(() => this.#closing.delete(closed));
  }
}

const isUsed = ({ leases, kept }: Entry): boolean => leases > 0 || kept > 0;

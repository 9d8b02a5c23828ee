import type { Log } from "../core/call.ts";
import type { CacheTimeout } from "../core/proxy.ts";
import type { Driver } from "../drivers/driver.ts";
import type { Connection, ConnectionRecord, OpenConnection, ValidFile } from "./connection.ts";

/** A connection that stays open until this is disposed of (`using`). */
export interface ConnectionLease extends Disposable {
  readonly connection: Connection;
}

/** The open connections. Each stays open while a call uses it, and then for `cacheTimeoutMinutes`. */
export class Pool {
  readonly #timeout: CacheTimeout;
  readonly #log: Log;
  /** Those that are in service: `open` of their record. */
  readonly #inService = new Set<OpenConnection>();
  readonly #byDriver = new WeakMap<Driver, OpenConnection>();
  readonly #closing = new Set<Promise<void>>();
  #sweep: ReturnType<typeof setTimeout> | undefined;

  constructor(timeout: CacheTimeout, log: Log) {
    this.#timeout = timeout;
    this.#log = log;
  }

  /** Puts a connection in service, in place of the record's present one. */
  add(record: ConnectionRecord, connection: Connection, file: Omit<ValidFile, "facts">): OpenConnection {
    this.drop(record);
    const { text, defaults, version } = file;
    const open: OpenConnection = { record, connection, text, defaults, version, leases: 0, kept: 0, idleSince: 0 };
    record.open = open;
    this.#inService.add(open);
    this.#byDriver.set(connection.driver, open);
    return open;
  }

  /** Keeps a connection open until the lease is disposed of. */
  lease(open: OpenConnection): ConnectionLease {
    open.leases++;
    const release = () => {
      open.leases--;
      this.#released(open);
    };
    return { connection: open.connection, [Symbol.dispose]: release };
  }

  /** Keeps a leased connection open until `work` has settled, even if the lease ends before. */
  keep({ driver }: Pick<Connection, "driver">, work: Promise<unknown>): void {
    const open = this.#byDriver.get(driver);
    if (!open) return;
    open.kept++;
    const settled = () => {
      open.kept--;
      this.#released(open);
    };
    work.then(settled, settled);
  }

  /** Takes a record's connection out of service and closes it as soon as it is unused. */
  drop(record: ConnectionRecord): void {
    const { open } = record;
    if (!open) return;
    record.open = undefined;
    this.#inService.delete(open);
    if (!isUsed(open)) this.#close(open);
  }

  /** Closes every unused connection and waits for that. */
  async close(): Promise<void> {
    clearTimeout(this.#sweep);
    for (const { record } of [...this.#inService]) this.drop(record);
    await Promise.allSettled(this.#closing);
  }

  #released(open: OpenConnection): void {
    if (isUsed(open)) return;
    if (!this.#inService.has(open)) this.#close(open);
    else if (this.#timeout.kind === "none") this.drop(open.record);
    else if (this.#timeout.kind === "idle") {
      open.idleSince = performance.now();
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
    const dueSince = performance.now() - this.#timeout.ms;
    const unused = [...this.#inService].filter(open => !isUsed(open));
    for (const { record, idleSince } of unused) if (idleSince <= dueSince) this.drop(record);
    const left = unused.filter(({ idleSince }) => idleSince > dueSince).map(({ idleSince }) => idleSince - dueSince);
    if (left.length > 0) this.#schedule(Math.min(...left));
  }

  #close({ connection }: OpenConnection): void {
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

const isUsed = ({ leases, kept }: OpenConnection): boolean => leases > 0 || kept > 0;

import type { Call, Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Finding } from "../health/finding.ts";
import { Breaker, type Outage } from "./breaker.ts";
import type { Connection } from "./connection.ts";
import type { Connections } from "./connections.ts";
import type { LastGood } from "./file-states.ts";
import { ResponseTimeout } from "./response-timeout.ts";

/** How long the check of a driver may take, in milliseconds. */
const checkMs = 20_000;

/** A call that takes so long, in milliseconds, counts as one that failed: it may copy, or never end. */
const slowMs = 15_000;

/** The breaker of one connection. */
interface BreakerEntry {
  readonly breaker: Breaker;
  /** What the connection is made from. */
  file: LastGood | undefined;
  /** As Connection.retain. */
  retain: boolean;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/**
 * Spares storages that are away, each connection by itself: while its driver's check fails as calls did, these are told so at once,
 * and only the check asks the storage, at growing intervals. Calls in progress go on. A driver without a check, and a
 * connection whose file has changed since, are asked as ever.
 */
export class Breakers {
  readonly #connections: Pick<Connections, "lastGood" | "useIfHealthy" | "keep">;
  readonly #log: Log;
  readonly #patience: ResponseTimeout;
  readonly #watched = new Map<string, BreakerEntry>();
  readonly #stop = new AbortController();

  constructor(connections: Pick<Connections, "lastGood" | "useIfHealthy" | "keep">, log: Log) {
    this.#connections = connections;
    this.#log = log;
    this.#patience = new ResponseTimeout(checkMs, (connection, work) => connections.keep(connection, work));
  }

  /** The answer of a storage to `question`. Throws "unavailable" without asking while it is known to be away. */
  async ask<T>(connection: Connection, question: () => Promise<T>): Promise<T> {
    this.#refuse(connection.name);
    return this.#counted(connection, question, watched => this.#succeeded(connection.name, watched));
  }

  /** As `ask`, for a look at how the storage is: that is never refused, and its success does not mean that volumes can be used. */
  look<T>(connection: Connection, question: () => Promise<T>): Promise<T> {
    return this.#counted(connection, question, () => {});
  }

  /**
   * Throws "unavailable" for a storage that is known to be away; its file is looked at first. `deleting`: a volume is to be
   * deleted, for which no storage is needed where volumes are left in place.
   */
  async refuse(name: string, deleting = false): Promise<void> {
    if (!this.of(name)) return;
    await this.#connections.useIfHealthy(name, async () => {}).catch(() => {});
    if (!deleting || !this.#known(name)?.retain) this.#refuse(name);
  }

  #refuse(name: string): void {
    const outage = this.of(name);
    if (!outage) return;
    const [since, next] = [outage.since, outage.next].map(time => `${new Date(time).toISOString().slice(0, 19)}Z`);
    throw new CsiError(
      "unavailable",
      `connection "${name}" has failed since ${since} and is asked again at ${next}: ${outage.reason}`,
    );
  }

  /** A connection has not answered a question in time: its check is asked at once. */
  late({ name, driver }: Pick<Connection, "name" | "driver">): void {
    if (!driver.check || this.#stop.signal.aborted) return;
    const watched = this.#known(name) ?? this.#newEntry(name);
    if (watched.breaker.late()) void this.#check(name, watched);
  }

  /** Whether its storage is away, or its check is being asked because calls failed. Who can do without it need not wait for it. */
  isDoubted(name: string): boolean {
    const breaker = this.#known(name)?.breaker;
    return breaker !== undefined && (breaker.outage !== undefined || breaker.isDoubted);
  }

  /** Undefined while its storage is there, as far as is known. */
  of(name: string): Outage | undefined {
    return this.#known(name)?.breaker.outage;
  }

  /** The same as something that is wrong with the connection. */
  findings(name: string): readonly Finding[] {
    const outage = this.of(name);
    return outage ? [{ reason: "StorageUnavailable", message: outage.reason }] : [];
  }

  /** Asks no more. */
  close(): void {
    this.#stop.abort();
    for (const { timer } of this.#watched.values()) clearTimeout(timer);
  }

  async #counted<T>(
    connection: Connection,
    question: () => Promise<T>,
    succeeded: (watched: BreakerEntry) => void,
  ): Promise<T> {
    if (!connection.driver.check) return question();
    const { name, retain } = connection;
    const watched = this.#known(name) ?? this.#newEntry(name);
    watched.retain = retain;
    const late = setTimeout(() => this.#failed(name, watched), slowMs);
    late.unref();
    try {
      const answer = await question();
      succeeded(watched);
      return answer;
    } catch (error) {
      if (isAway(error)) this.#failed(name, watched);
      throw error;
    } finally {
      clearTimeout(late);
    }
  }

  #succeeded(name: string, { breaker, timer }: BreakerEntry): void {
    if (!breaker.succeeded()) return;
    clearTimeout(timer);
    this.#log.info(`connection "${name}" can be used again`, { connection: name });
  }

  #failed(name: string, watched: BreakerEntry): void {
    if (!this.#stop.signal.aborted && watched.breaker.failed()) void this.#check(name, watched);
  }

  /** Asks the driver's check. What is against the file, or against anything but the way to the storage, is told to the calls themselves. */
  async #check(name: string, watched: BreakerEntry): Promise<void> {
    const checked = (connection: Connection): Promise<unknown> =>
      this.#checked(connection).catch((cause: unknown) => cause);
    const error = await this.#connections.useIfHealthy(name, checked).catch(() => undefined);
    if (this.#stop.signal.aborted || this.#known(name) !== watched) return;
    if (!isAway(error)) return this.#succeeded(name, watched);
    const was = watched.breaker.outage;
    const ms = watched.breaker.confirmed(error.message);
    if (ms === undefined) return;
    if (!was)
      this.#log.warn(
        `connection "${name}" cannot be used: calls that need its storage are refused until its check succeeds`,
        {
          connection: name,
          reason: error.message,
        },
      );
    watched.timer = setTimeout(() => {
      watched.breaker.retried();
      void this.#check(name, watched);
    }, ms);
    watched.timer.unref();
  }

  #checked(connection: Connection): Promise<void> {
    const log = this.#log.with({ connection: connection.name });
    const call: Call = { id: "check", signal: this.#stop.signal, log, secrets: {} };
    return this.#patience.ask(connection, call, async own => connection.driver.check?.(own));
  }

  #newEntry(name: string): BreakerEntry {
    const watched: BreakerEntry = {
      breaker: new Breaker(),
      file: this.#connections.lastGood(name),
      retain: false,
      timer: undefined,
    };
    this.#watched.set(name, watched);
    return watched;
  }

  /** What is known of the connection as its file is now. Suspending a storage that is away does not bring it back. */
  #known(name: string): BreakerEntry | undefined {
    const watched = this.#watched.get(name);
    if (!watched) return undefined;
    const file = this.#connections.lastGood(name);
    const { file: before, breaker } = watched;
    const isSame = before?.text === file?.text && before?.defaults === file?.defaults;
    if (isSame || (file?.connection.suspended && breaker.outage)) {
      watched.file = file;
      return watched;
    }
    clearTimeout(watched.timer);
    this.#watched.delete(name);
    return undefined;
  }
}

/** Whether it may be that nobody was there. */
const isAway = (error: unknown): error is CsiError =>
  error instanceof CsiError && (error.code === "unavailable" || error.code === "deadline-exceeded");

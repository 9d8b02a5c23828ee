import { type Call, type Log, withSignal } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Context, Driver, FoundVolume } from "../drivers/driver.ts";
import { Breaker } from "./breaker.ts";
import type { Connection, ConnectionRecord } from "./connection.ts";
import type { Connections } from "./connections.ts";
import { checkResult, isLoginRefused, uncertain } from "./unusable.ts";

/** How many connections are asked at once for a request that concerns all of them. */
export const connectionsAtOnce = 16;

/** How long a connection may take, in milliseconds; to look something up, less than the 15 s that sidecars wait. Tests use shorter times. */
export interface ResponseTimes {
  /** To look up one volume, or to list all. */
  readonly look: number;
  /** To report its free space. */
  readonly capacity: number;
  /** For the breaker's check. */
  readonly check: number;
  /** Between two connections to the host of a storage that is unreachable, which show that it is back. */
  readonly answers: number;
  /** For any call, until it counts as a failed one: it may be copying, or it may never end. */
  readonly slow: number;
}

/** The times of a real process. */
export const usualTimes: ResponseTimes = { look: 10_000, capacity: 5_000, check: 20_000, answers: 3_000, slow: 15_000 };

/**
 * The kinds of calls with a time limit. Limits apply per kind: a slow listing does not mark the connection as
 * unresponsive for other calls.
 */
export type TimedCall = "lookup" | "listing" | "capacity" | "health" | "check";

type Called = Pick<Connection, "name" | "driver" | "suspended">;

/**
 * Calls the storage systems. One that is known to be unreachable is spared: while its driver's check fails like the calls before, calls
 * are refused at once, and only the check contacts it, at growing intervals. Calls in progress continue. Drivers without a check
 * are always called.
 */
export class StorageCalls {
  readonly #connections: Pick<Connections, "record" | "useIfHealthy" | "keep" | "rereadNamed">;
  readonly #times: ResponseTimes;
  readonly #log: Log;
  readonly #stop = new AbortController();

  constructor(
    connections: Pick<Connections, "record" | "useIfHealthy" | "keep" | "rereadNamed">,
    times: Partial<ResponseTimes>,
    log: Log,
  ) {
    this.#connections = connections;
    this.#times = { ...usualTimes, ...times };
    this.#log = log;
  }

  /** Calls the driver, without a time limit. Throws "unavailable" at once while the storage system is known to be unreachable. */
  async make<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
    this.#refuse(connection.name);
    return this.#counted(connection, work, true);
  }

  /** Like `make`, for what creates a volume or snapshot. A refused login is not a final answer (uncertain). */
  async create<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
    return this.make(connection, work).catch((error: unknown) => {
      throw uncertain(error);
    });
  }

  /** Like `make`, with a time limit; for calls that change nothing. Throws "unavailable" if there is no answer in time. */
  async read<T>(kind: TimedCall, connection: Connection, call: Call, work: (call: Call) => Promise<T>): Promise<T> {
    this.#refuse(connection.name);
    return this.#counted(connection, () => this.#timed(kind, this.#limit(kind), connection, call, work), true);
  }

  /** Like `read`, for checks of the storage system: never refused, and their success does not mean that volumes can be used. */
  probe<T>(kind: TimedCall, connection: Connection, call: Call, work: (call: Call) => Promise<T>): Promise<T> {
    return this.#counted(connection, () => this.#timed(kind, this.#limit(kind), connection, call, work), false);
  }

  /** The volume of this name, finished or not; undefined also if the driver cannot look up names. */
  async find(connection: Connection, name: string, call: Call): Promise<FoundVolume | undefined> {
    const { names } = connection.driver;
    return names && this.read("lookup", connection, call, own => names.find(name, own));
  }

  /**
   * Removes what an interrupted creation of this name left, because the volume is created elsewhere; a finished volume stays and is
   * returned. The caller holds the lock of the volume. Throws "aborted" if another process finishes it meanwhile.
   */
  async clear(connection: Connection, name: string, call: Call): Promise<FoundVolume | undefined> {
    const found = await this.find(connection, name, call);
    const { names } = connection.driver;
    if (!names || found?.kind !== "unfinished") return found;
    await this.make(connection, () => names.discard(found.id, call));
    return undefined;
  }

  /** Bytes that a new volume may take; undefined if the driver cannot tell. Throws "unavailable" at once while the storage is doubted. */
  async freeSpace(connection: Connection, parameters: Context, call: Call): Promise<bigint | undefined> {
    const { capacity } = connection.driver;
    if (!capacity) return undefined;
    const { name } = connection;
    const record = this.#connections.record(name);
    if (!record?.outage && this.isDoubted(name))
      throw new CsiError("unavailable", `connection "${name}" has not answered and is being checked now`);
    const value = await this.read("capacity", connection, call, own => capacity.available(parameters, own));
    if (record) record.figures.free = { value, at: Date.now() };
    return value;
  }

  /**
   * Throws "unavailable" if the storage system is known to be unreachable; its file is checked for a change first. `deleting`: a volume
   * is to be deleted, which needs no storage system if volumes are left in place.
   */
  async refuse(name: string, deleting = false): Promise<void> {
    if (!this.#connections.record(name)?.outage) return;
    await this.#connections.useIfHealthy(name, async () => {}).catch(() => {});
    if (!deleting || !this.#connections.record(name)?.lastValid?.facts.retain) this.#refuse(name);
  }

  /** Whether the storage system is unreachable, or is being checked because calls failed: callers with an alternative need not wait for it. */
  isDoubted(name: string): boolean {
    const breaker = this.#connections.record(name)?.breaker;
    return breaker !== undefined && (breaker.outage !== undefined || breaker.isDoubted);
  }

  /** Ends all checks. */
  close(): void {
    this.#stop.abort();
  }

  #refuse(name: string): void {
    const outage = this.#connections.record(name)?.outage;
    if (!outage) return;
    const shown = (time: number) => `${new Date(time).toISOString().slice(0, 19)}Z`;
    const { nextInMs } = outage;
    // Rounded up to whole seconds, because the text has no smaller unit.
    const next =
      nextInMs === undefined ? "it is being checked now" : `next attempt at ${shown(Date.now() + nextInMs + 999)}`;
    const text = `connection "${name}" has been unreachable since ${shown(outage.since)}; ${next}: ${outage.reason}`;
    throw new CsiError("unavailable", text);
  }

  #limit(kind: TimedCall): number {
    const { look, capacity } = this.#times;
    if (kind === "capacity") return capacity;
    // A check makes several requests, one after the other.
    return kind === "check" ? 2 * look : look;
  }

  /** Counts failures; `proves`: success shows that the storage system can be used. */
  async #counted<T>({ name, driver }: Connection, work: () => Promise<T>, proves: boolean): Promise<T> {
    const record = this.#connections.record(name);
    if (!driver.check || !record) return work().catch(error => this.#refused(name, error));
    const breaker = breakerOf(record);
    const slow = setTimeout(() => this.#failed(record, breaker), this.#times.slow);
    slow.unref();
    try {
      const answer = await work();
      if (proves) this.#succeeded(record, breaker);
      return answer;
    } catch (error) {
      if (isUnreachable(error)) this.#failed(record, breaker);
      return this.#refused(name, error);
    } finally {
      clearTimeout(slow);
    }
  }

  /** Throws the error of a call. A password file that was changed is the usual reason of a refused login: the next call reads it again. */
  #refused(name: string, error: unknown): never {
    if (isLoginRefused(error)) this.#connections.rereadNamed(name);
    throw error;
  }

  /**
   * Calls with a time limit. A late call is aborted, which ends a command or request; but a call to a dead NFS mount ends for no signal
   * and holds a thread of the process. So a connection with an unanswered call of a kind gets no further one of it; after it was
   * reopened it does, unless that was to suspend it.
   */
  async #timed<T>(
    kind: TimedCall | "breaker",
    ms: number,
    connection: Called,
    call: Call,
    work: (call: Call) => Promise<T>,
  ): Promise<T> {
    const { name, driver, suspended } = connection;
    const none = () => new CsiError("unavailable", `connection "${name}" has not answered for ${ms / 1000} s`);
    const record = this.#connections.record(name);
    const silent = record?.silent?.get(kind);
    if (silent === driver || (silent && suspended)) throw none();
    const limit = new AbortController();
    const leave = () => limit.abort(call.signal.reason);
    if (call.signal.aborted) leave();
    else call.signal.addEventListener("abort", leave, { once: true });
    const answer = work(withSignal(call, limit.signal));
    this.#connections.keep(connection, answer);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        if (record) awaitAnswer(record, kind, driver, answer);
        if (kind !== "breaker") this.#late(connection);
        reject(none());
        limit.abort(none());
      }, ms);
    });
    return Promise.race([answer, late]).finally(() => {
      clearTimeout(timer);
      call.signal.removeEventListener("abort", leave);
    });
  }

  /** A connection has exceeded a time limit: its check runs at once. */
  #late({ name, driver }: Called): void {
    const record = this.#connections.record(name);
    if (!driver.check || !record || this.#stop.signal.aborted) return;
    const breaker = breakerOf(record);
    if (breaker.late()) void this.#check(record, breaker);
  }

  /** Records a success; `error`: of a check that has reached the storage system but failed. */
  #succeeded(record: ConnectionRecord, breaker: Breaker, error?: unknown): void {
    // One of a file that was changed meanwhile says nothing about the present one.
    if (!breaker.succeeded() || record.breaker !== breaker) return;
    const { name, retry } = record;
    clearTimeout(retry);
    record.retry = undefined;
    // Its state begins now, whether or not a check of the health has seen the outage.
    record.check = checkResult(error, undefined);
    this.#log.info(`connection "${name}" can be used again`, { connection: name });
  }

  #failed(record: ConnectionRecord, breaker: Breaker): void {
    if (!this.#stop.signal.aborted && breaker.failed()) void this.#check(record, breaker);
  }

  /** Runs the driver's check. Problems of the file, or of anything but reaching the storage system, are left to the calls themselves. */
  async #check(record: ConnectionRecord, breaker: Breaker): Promise<void> {
    const { name } = record;
    const log = this.#log.with({ connection: name });
    const call: Call = { id: "check", signal: this.#stop.signal, log, secrets: {} };
    const failureOf = (connection: Connection): Promise<unknown> =>
      this.#timed("breaker", this.#times.check, connection, call, async own => connection.driver.check?.(own)).catch(
        (cause: unknown) => cause,
      );
    const error = await this.#connections.useIfHealthy(name, failureOf).catch(() => undefined);
    if (this.#stop.signal.aborted || record.breaker !== breaker) return;
    if (!isUnreachable(error)) return this.#succeeded(record, breaker, error);
    const isNew = breaker.outage === undefined;
    const ms = breaker.confirmed(error.message);
    if (ms === undefined) return;
    if (isNew) {
      const text = `connection "${name}" cannot be used: calls that need its storage are refused until its check succeeds`;
      this.#log.warn(text, { connection: name, reason: error.message });
    }
    this.#retry(record, breaker, performance.now() + ms);
  }

  /** Runs the check at this time (performance.now()), or as soon as the host accepts connections again. */
  #retry(record: ConnectionRecord, breaker: Breaker, at: number): void {
    const { answers } = record.lastValid?.facts ?? {};
    const left = at - performance.now();
    const isEarly = answers !== undefined && left > this.#times.answers;
    const timer = setTimeout(
      async () => {
        const accepts = isEarly && (await answers(this.#stop.signal).catch(() => false));
        if (record.retry !== timer || this.#stop.signal.aborted) return;
        if (isEarly && !breaker.answered(accepts)) return this.#retry(record, breaker, at);
        breaker.retried();
        void this.#check(record, breaker);
      },
      isEarly ? this.#times.answers : left,
    );
    record.retry = timer;
    timer.unref();
  }
}

function breakerOf(record: ConnectionRecord): Breaker {
  record.breaker ??= new Breaker();
  return record.breaker;
}

/** Remembers an unanswered call until it has ended. */
function awaitAnswer(record: ConnectionRecord, kind: string, driver: Driver, answer: Promise<unknown>): void {
  record.silent ??= new Map();
  const { silent } = record;
  silent.set(kind, driver);
  const answered = () => void (silent.get(kind) === driver && silent.delete(kind));
  answer.then(answered, answered);
}

/** Whether the storage system may not have received the call at all. */
const isUnreachable = (error: unknown): error is CsiError =>
  error instanceof CsiError && (error.code === "unavailable" || error.code === "deadline-exceeded");

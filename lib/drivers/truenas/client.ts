import { keepSecret, masked } from "../../core/secrets.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { unlessAborted } from "../../core/time.ts";
import { HttpError, originOf } from "../../io/dial.ts";
import { ApiError } from "./api-error.ts";
import { connected } from "./connect.ts";
import { jobRunner, lockTurns, type OwnedCall, waitsForLock } from "./job.ts";
import { loginMs } from "./rpc-transport.ts";
import { type Server, secretsOf } from "./server.ts";
import { type ApiTransport, changesNothing, type Limits, type SystemVersion, usualLimits } from "./transport.ts";

/** The concurrent calls of a client. A server runs 10 calls of a socket at once and refuses the 21st (25.10). */
const callsAtOnce = 8;

/** The calls that may wait for a late answer besides those. */
const lateCalls = 24;

/** A server accepts 20 logins from one address in a minute (main.py, 25.10); other clients there need some, too. */
const loginsAMinute = 12;
const firstDelayMs = 1000;
const longestDelayMs = 30_000;

/** Limits how often a client logs in to a server: immediately after a success, with growing delays after failures. */
class LoginRateLimiter {
  readonly #now: () => number;
  #failures = 0;
  #notBefore = 0;
  #logins: readonly number[] = [];

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Milliseconds until the next login is allowed; 0 if it is allowed now. */
  wait(): number {
    const now = this.#now();
    const recent = this.#recent(now);
    const budget = recent.length < loginsAMinute ? 0 : (recent[0] ?? now) + 60_000 - now;
    return Math.max(0, this.#notBefore - now, budget);
  }

  /** Counts a login that starts now. */
  begun(): void {
    const now = this.#now();
    this.#logins = [...this.#recent(now), now];
  }

  succeeded(): void {
    this.#failures = 0;
    this.#notBefore = 0;
  }

  /** Delays the next login, with jitter to avoid that many clients return at once. */
  failed(): void {
    const delay = Math.min(longestDelayMs, firstDelayMs * 2 ** this.#failures);
    this.#failures++;
    this.#notBefore = this.#now() + delay * (0.5 + Math.random() / 2);
  }

  #recent(now: number): readonly number[] {
    return this.#logins.filter(time => now - time < 60_000);
  }
}

/** A connection to the system, and the number of calls that wait for an answer on it. */
interface ClientConnection {
  readonly transport: ApiTransport;
  calls: number;
}

/** A call; `leave` ends its turn before its answer. */
interface Request {
  readonly method: string;
  readonly params: readonly unknown[];
  readonly signal: AbortSignal;
  readonly leave: () => boolean;
}

/** Parts of a client that tests replace. */
export interface ClientParts {
  readonly logins?: LoginRateLimiter;
  readonly limits?: Limits;
}

/**
 * One TrueNAS system, for all connections that use it with the same credentials. Connects for the first call and after a connection was
 * lost, and detects the protocol each time, because a system can be upgraded. A connection with a late answer gets no further calls
 * and is closed after its last call, to avoid that a lost answer delays others.
 */
export class Client {
  readonly where: string;
  /** As Api.job, for `owner`. */
  readonly job: OwnedCall;
  readonly #server: Server;
  readonly #logins: LoginRateLimiter;
  readonly #limits: Limits;
  readonly #turns = new Semaphore(callsAtOnce, lateCalls);
  readonly #lockTurns = lockTurns();
  /** The one for new calls. */
  #current: ClientConnection | undefined;
  /** All that are open. */
  readonly #connections = new Set<ClientConnection>();
  #opening: Promise<ClientConnection> | undefined;
  /** Ends the masking of the credentials in logs. */
  readonly #forgetSecrets: () => void;
  #failure: unknown;
  readonly #closing = new AbortController();

  constructor(server: Server, { logins = new LoginRateLimiter(), limits = usualLimits }: ClientParts = {}) {
    this.where = originOf(server.http);
    this.#server = server;
    this.#logins = logins;
    this.#limits = limits;
    this.#forgetSecrets = keepSecret(secretsOf(server));
    this.job = jobRunner(this.where, (...asked) => this.call(...asked), limits, this.#lockTurns);
  }

  /** The system's version; connects if necessary. */
  async version(signal: AbortSignal): Promise<SystemVersion> {
    return (await this.#connection(signal)).transport.version;
  }

  /**
   * Calls a method for `owner`; owners take turns. Repeats a method that only reads if the connection was lost; after any other the
   * caller must find out what was done. Throws ApiError, HttpError, LoginRefused or NotTrueNas.
   */
  async call(owner: string, method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const ask = () => this.#turns.run(leave => this.#asked({ method, params, signal, leave }), signal, owner);
    try {
      return await (waitsForLock(method, params) ? this.#lockTurns.run(ask, signal, owner) : ask());
    } catch (error) {
      throw this.#clean(error);
    }
  }

  close(): void {
    this.#closing.abort();
    this.#current = undefined;
    for (const connection of this.#connections) this.#end(connection);
    this.#forgetSecrets();
  }

  async #asked(request: Request): Promise<unknown> {
    const { method, signal } = request;
    const connection = await this.#connection(signal);
    try {
      return await this.#answered(connection, request);
    } catch (error) {
      if (!(error instanceof HttpError) || error.failure === "too-long" || signal.aborted) throw error;
      this.#retire(connection);
      const unsent = error.failure === "refused" || error.failure === "unreachable";
      if (!unsent && !(error.failure === "lost" && changesNothing(method))) throw error;
      const again = await this.#connection(signal);
      // Requests depend on the version: another one may understand the same words differently.
      if (again.transport.version.text !== connection.transport.version.text) throw error;
      return this.#answered(again, request);
    }
  }

  async #answered(connection: ClientConnection, { method, params, signal, leave }: Request): Promise<unknown> {
    connection.calls++;
    const late = setTimeout(() => leave() && this.#retire(connection), this.#limits.lateMs);
    try {
      return await connection.transport.call(method, params, signal);
    } finally {
      clearTimeout(late);
      connection.calls--;
      if (connection !== this.#current && connection.calls === 0) this.#end(connection);
    }
  }

  /** Makes the next call connect again. Calls that wait for answers keep this connection. */
  #retire(connection: ClientConnection): void {
    if (this.#current === connection) this.#current = undefined;
    if (connection.calls === 0) this.#end(connection);
  }

  #end(connection: ClientConnection): void {
    this.#connections.delete(connection);
    connection.transport.close();
  }

  async #connection(signal: AbortSignal): Promise<ClientConnection> {
    if (this.#closing.signal.aborted) throw new HttpError(this.where, "refused", "this connection is closed");
    if (this.#current && !this.#current.transport.over) return this.#current;
    if (this.#current) this.#retire(this.#current);
    if (!this.#opening) {
      if (this.#logins.wait() > 0)
        throw this.#failure ?? new HttpError(this.where, "unreachable", "lost too often lately");
      this.#opening = this.#open().finally(() => {
        this.#opening = undefined;
      });
    }
    const ended = () => new HttpError(this.where, "cancelled", "the call ended before the server was reached");
    return unlessAborted(this.#opening, signal, ended);
  }

  /** Connects without the signal of a call: others wait for the same connection. */
  async #open(): Promise<ClientConnection> {
    this.#logins.begun();
    try {
      const transport = await connected(
        this.#server,
        this.#limits,
        AbortSignal.any([AbortSignal.timeout(loginMs), this.#closing.signal]),
      );
      const connection: ClientConnection = { transport, calls: 0 };
      this.#logins.succeeded();
      this.#failure = undefined;
      if (this.#closing.signal.aborted) transport.close();
      else {
        this.#current = connection;
        this.#connections.add(connection);
      }
      return connection;
    } catch (error) {
      this.#logins.failed();
      this.#failure = error;
      throw error;
    }
  }

  /** Masks the credentials in an error, because a server may repeat what it was sent. */
  #clean(error: unknown): unknown {
    if (!(error instanceof Error)) return error;
    const clean = (text: string) => masked(text, secretsOf(this.#server));
    error.message = clean(error.message);
    return error instanceof ApiError ? error.rewritten(clean) : error;
  }
}

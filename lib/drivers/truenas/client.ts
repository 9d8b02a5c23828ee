import { keepSecret, masked } from "../../core/secrets.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { HttpError, originOf } from "../../io/dial.ts";
import { ApiError } from "./api-error.ts";
import { connected } from "./connect.ts";
import { JobRunner } from "./job.ts";
import { LoginRateLimiter } from "./login-rate-limiter.ts";
import { changesNothing, type Limits, usualLimits } from "./methods.ts";
import { loginMs } from "./rpc-transport.ts";
import { type Server, secretsOf } from "./server.ts";
import type { Transport, Version } from "./transport.ts";

/** The server runs 10 calls of a socket at once and refuses the 21st. */
const callsAtOnce = 8;

/** How many calls may wait for a late answer beside those. */
const mostLate = 24;

/** A way to the system, and how many calls wait for an answer on it. */
interface ClientConnection {
  readonly transport: Transport;
  calls: number;
}

/** What a client can be given by a test. */
export interface ClientParts {
  readonly pace?: LoginRateLimiter;
  readonly limits?: Limits;
}

/**
 * One TrueNAS system for all connections that use it with the same credentials. Connects when it is first asked for something,
 * and again when the connection was lost; which protocol is spoken is found out each time, so that a system may be upgraded.
 * A connection on which an answer is late gets no further calls and is closed when its last call has ended, so that lost answers
 * hold up nobody else.
 */
export class Client {
  readonly where: string;
  readonly jobs: JobRunner;
  readonly #server: Server;
  readonly #pace: LoginRateLimiter;
  readonly #limits: Limits;
  readonly #turns = new Semaphore(callsAtOnce, mostLate);
  /** What new calls are sent on. */
  #line: ClientConnection | undefined;
  /** All that are not closed. */
  readonly #lines = new Set<ClientConnection>();
  #opening: Promise<ClientConnection> | undefined;
  readonly #shown: () => void;
  #failure: unknown;
  #closed = false;

  constructor(server: Server, { pace = new LoginRateLimiter(), limits = usualLimits }: ClientParts = {}) {
    this.where = originOf(server.http);
    this.#server = server;
    this.#pace = pace;
    this.#limits = limits;
    this.#shown = keepSecret(secretsOf(server));
    this.jobs = new JobRunner(this.where, (...asked) => this.call(...asked), limits);
  }

  /** The system's version; asks for it when there is no connection. */
  async version(signal: AbortSignal): Promise<Version> {
    return (await this.#connection(signal)).transport.version;
  }

  /**
   * Calls a method for `owner`, whose calls take turns with those of others. A reading method is asked again when the connection
   * was lost; after a changing one the caller has to look what became of it. Throws ApiError, HttpError, LoginRefused or NotTrueNas.
   */
  async call(owner: string, method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    try {
      return await this.#turns.run(leave => this.#asked(method, params, signal, leave), signal, owner);
    } catch (error) {
      throw this.#clean(error);
    }
  }

  close(): void {
    this.#closed = true;
    this.#line = undefined;
    for (const line of this.#lines) this.#end(line);
    this.#shown();
  }

  async #asked(
    method: string,
    params: readonly unknown[],
    signal: AbortSignal,
    leave: () => boolean,
  ): Promise<unknown> {
    const line = await this.#connection(signal);
    try {
      return await this.#answered(line, method, params, signal, leave);
    } catch (error) {
      if (!(error instanceof HttpError) || error.failure === "too-long" || signal.aborted) throw error;
      this.#retire(line);
      const unsent = error.failure === "refused" || error.failure === "unreachable";
      if (!unsent && !(error.failure === "lost" && changesNothing(method))) throw error;
      const again = await this.#connection(signal);
      // Requests are chosen by the version; another one may understand something else by the same words.
      if (again.transport.version.text !== line.transport.version.text) throw error;
      return this.#answered(again, method, params, signal, leave);
    }
  }

  async #answered(
    line: ClientConnection,
    method: string,
    params: readonly unknown[],
    signal: AbortSignal,
    leave: () => boolean,
  ): Promise<unknown> {
    line.calls++;
    const late = setTimeout(() => leave() && this.#retire(line), this.#limits.lateMs);
    try {
      return await line.transport.call(method, params, signal);
    } finally {
      clearTimeout(late);
      line.calls--;
      if (line !== this.#line && line.calls === 0) this.#end(line);
    }
  }

  /** The next call looks again who is there. Calls that wait for answers on this line keep it. */
  #retire(line: ClientConnection): void {
    if (this.#line === line) this.#line = undefined;
    if (line.calls === 0) this.#end(line);
  }

  #end(line: ClientConnection): void {
    this.#lines.delete(line);
    line.transport.close();
  }

  async #connection(signal: AbortSignal): Promise<ClientConnection> {
    if (this.#closed) throw new HttpError(this.where, "refused", "this connection is closed");
    if (this.#line && !this.#line.transport.over) return this.#line;
    if (this.#line) this.#retire(this.#line);
    if (!this.#opening) {
      if (this.#pace.wait() > 0)
        throw this.#failure ?? new HttpError(this.where, "unreachable", "lost too often lately");
      this.#opening = this.#open().finally(() => {
        this.#opening = undefined;
      });
    }
    return unlessAborted(this.#opening, this.where, signal);
  }

  /** Nobody's signal: others wait for the same connection. */
  async #open(): Promise<ClientConnection> {
    this.#pace.begun();
    try {
      const transport = await connected(this.#server, this.#limits, AbortSignal.timeout(loginMs));
      const line: ClientConnection = { transport, calls: 0 };
      this.#pace.succeeded();
      this.#failure = undefined;
      if (this.#closed) transport.close();
      else {
        this.#line = line;
        this.#lines.add(line);
      }
      return line;
    } catch (error) {
      this.#pace.failed();
      this.#failure = error;
      throw error;
    }
  }

  /** The server may repeat what it was sent. */
  #clean(error: unknown): unknown {
    if (!(error instanceof Error)) return error;
    const clean = (text: string) => masked(text, secretsOf(this.#server));
    error.message = clean(error.message);
    return error instanceof ApiError ? error.rewritten(clean) : error;
  }
}

function unlessAborted<T>(work: Promise<T>, where: string, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancelled = () => reject(new HttpError(where, "cancelled", "the call ended before the server was reached"));
    // First of all, or nobody would hear of its failure, which ends the process.
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", cancelled));
    if (signal.aborted) return cancelled();
    signal.addEventListener("abort", cancelled, { once: true });
  });
}

/** One connection's use of a client. */
export interface Api {
  readonly where: string;
  version(signal: AbortSignal): Promise<Version>;
  /** As Client.call. */
  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  /**
   * Runs a job's method to its end and answers the job's result. A job that is no longer wanted, or takes longer than its limit, is
   * aborted. Throws what the job failed with as ApiError, and LostJob when the server has forgotten it: how far it came is unknown.
   */
  job(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
}

/** The use of `client` by the connection `owner`. */
export const apiOf = (client: Client, owner: string): Api => ({
  where: client.where,
  version: signal => client.version(signal),
  call: (method, params, signal) => client.call(owner, method, params, signal),
  job: (method, params, signal) => client.jobs.run(owner, method, params, signal),
});

import { masked } from "../../core/mask.ts";
import { pause } from "../../core/pause.ts";
import { HttpError, placeOf } from "../../io/dial.ts";
import { FairTurns } from "../../io/fair-turns.ts";
import { ApiError, errnos, LostJob } from "./api-error.ts";
import { connected } from "./connect.ts";
import { Pace } from "./pace.ts";
import { problemsIn } from "./rpc-transport.ts";
import { type Server, secretsOf } from "./server.ts";
import type { Transport, Version } from "./transport.ts";

/** The server runs 10 calls of a socket at once and refuses the 21st. */
const callsAtOnce = 8;

/** What happens now and then while a client lives. */
export interface Events {
  /** A connection was made: to which version. */
  connected(where: string, version: string): void;
}

/**
 * One TrueNAS system for all connections that use it with the same credentials. Connects when it is first asked for something,
 * and again when the connection was lost; which protocol is spoken is found out each time, so that a system may be upgraded.
 */
export class Client {
  readonly where: string;
  readonly #server: Server;
  readonly #events: Events | undefined;
  readonly #pace: Pace;
  readonly #turns = new FairTurns(callsAtOnce);
  #transport: Transport | undefined;
  #opening: Promise<Transport> | undefined;
  #failure: unknown;
  #closed = false;

  constructor(server: Server, events?: Events, pace: Pace = new Pace()) {
    this.where = placeOf(server.http);
    this.#server = server;
    this.#events = events;
    this.#pace = pace;
  }

  /** The system's version; asks for it when there is no connection. */
  async version(signal: AbortSignal): Promise<Version> {
    return (await this.#connection(signal)).version;
  }

  /**
   * Calls a method for `owner`, whose calls take turns with those of others. A reading method is asked again when the connection
   * was lost; after a changing one the caller has to look what became of it. Throws ApiError, HttpError, LoginRefused or NotTrueNas.
   */
  async call(owner: string, method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    try {
      return await this.#turns.run(owner, signal, () => this.#asked(method, params, signal));
    } catch (error) {
      throw this.#clean(error);
    }
  }

  close(): void {
    this.#closed = true;
    this.#transport?.close();
  }

  async #asked(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const transport = await this.#connection(signal);
    try {
      return await transport.call(method, params, signal);
    } catch (error) {
      if (!(error instanceof HttpError) || signal.aborted) throw error;
      this.#drop(transport);
      const unsent = error.failure === "refused" || error.failure === "unreachable";
      if (!unsent && !(error.failure === "lost" && reads.test(method))) throw error;
      const again = await this.#connection(signal);
      // Requests are chosen by the version; another one may understand something else by the same words.
      if (again.version.text !== transport.version.text) throw error;
      return again.call(method, params, signal);
    }
  }

  /** After a failure of the way itself the next call looks again who is there. */
  #drop(transport: Transport): void {
    if (this.#transport !== transport) return;
    this.#transport = undefined;
    transport.close();
  }

  async #connection(signal: AbortSignal): Promise<Transport> {
    if (this.#closed) throw new HttpError(this.where, "refused", "this connection is closed");
    if (this.#transport && !this.#transport.over) return this.#transport;
    this.#transport = undefined;
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
  async #open(): Promise<Transport> {
    this.#pace.begun();
    try {
      this.#transport = await connected(this.#server, AbortSignal.timeout(30_000));
      this.#pace.succeeded();
      this.#events?.connected(this.where, this.#transport.version.text);
      if (this.#closed) this.#transport.close();
      return this.#transport;
    } catch (error) {
      this.#pace.failed();
      this.#failure = error;
      throw error;
    }
  }

  /** The server may repeat what it was sent. */
  #clean(error: unknown): unknown {
    if (error instanceof Error) error.message = masked(error.message, secretsOf(this.#server));
    return error;
  }
}

/** Methods that change nothing. */
const reads = /\.(?:query|config|get_instance|get_jobs|stat|version|version_short|product_type|status|me)$/;

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
   * Runs a job's method to its end and answers the job's result. A job that is no longer wanted is aborted. Throws what the job
   * failed with as ApiError, and LostJob when the server has forgotten it: then nobody knows how far it came.
   */
  job(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
}

/** The use of `client` by the connection `owner`. */
export const apiOf = (client: Client, owner: string): Api => {
  const call: Api["call"] = (method, params, signal) => client.call(owner, method, params, signal);
  return {
    where: client.where,
    version: signal => client.version(signal),
    call,
    async job(method, params, signal) {
      const id = await call(method, params, signal);
      try {
        return await jobEnd(call, method, id, signal);
      } catch (error) {
        if (signal.aborted) await call("core.job_abort", [id], AbortSignal.timeout(5000)).catch(() => undefined);
        throw error;
      }
    },
  };
};

const firstLookMs = 20;
const lastLookMs = 2000;

/** Looks at a job, less and less often, until it has ended. */
async function jobEnd(call: Api["call"], method: string, id: unknown, signal: AbortSignal): Promise<unknown> {
  for (let wait = firstLookMs; ; wait = Math.min(wait * 2, lastLookMs)) {
    const [job] = (await call("core.get_jobs", [[["id", "=", id]]], signal)) as readonly Readonly<
      Record<string, unknown>
    >[];
    // Numbers begin anew after a restart, so another job may have this one's.
    if (!job || job["method"] !== method) throw new LostJob(method);
    if (job["state"] === "SUCCESS") return job["result"];
    if (job["state"] === "FAILED" || job["state"] === "ABORTED") throw jobError(method, job);
    // A call that has ended meanwhile is told so by the next look, with the name of the server.
    await pause(wait, signal).catch(() => {});
  }
}

function jobError(method: string, job: Readonly<Record<string, unknown>>): ApiError {
  const info = (job["exc_info"] ?? {}) as Readonly<Record<string, unknown>>;
  const problems = problemsIn(info["extra"]);
  const errno = typeof info["errno"] === "number" ? info["errno"] : problems.length > 0 ? errnos.invalid : errnos.fault;
  return new ApiError(method, errno, String(job["error"] ?? job["state"]), problems);
}

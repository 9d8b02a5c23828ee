import { CsiError } from "../../core/errors.ts";
import { SharedInstances } from "../../io/lease.ts";
import { ApiError, apiErrorMapping, errnos, isDenied } from "./api-error.ts";
import { Client } from "./client.ts";
import { type Server, serverKey } from "./server.ts";
import type { SystemVersion } from "./transport.ts";

/** One connection's use of a system. */
export interface Api {
  /** Such as "https://nas:443". */
  readonly where: string;
  version(signal: AbortSignal): Promise<SystemVersion>;
  /** As Client.call. */
  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  /**
   * Runs the job of a method to its end and answers the job's result. Aborts the job if the signal aborts or its time limit passes, but
   * not a replication, which would continue unseen. Throws ApiError if the job failed, and LostJob if the server has forgotten it: how far it
   * came is unknown.
   */
  job(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
}

class OwnedApi implements Api {
  readonly #client: Client;
  readonly #owner: string;

  constructor(client: Client, owner: string) {
    this.#client = client;
    this.#owner = owner;
  }

  get where(): string {
    return this.#client.where;
  }

  version(signal: AbortSignal): Promise<SystemVersion> {
    return this.#client.version(signal);
  }

  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    return this.#client.call(this.#owner, method, params, signal);
  }

  job(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    return this.#client.job(this.#owner, method, params, signal);
  }
}

/** The use of `client` by the connection `owner`. */
export const apiOf = (client: Client, owner: string): Api => new OwnedApi(client, owner);

/** The clients of this process, one for each system and account. */
const clients = new SharedInstances<Client>(0);

/** A connection's use of a system; `release` ends it, and the last one closes the client. Does no I/O. */
export function leasedApi(server: Server, connection: string): { readonly api: Api; release(): Promise<void> } {
  const { value, release } = clients.lease(serverKey(server), () => new Client(server));
  return { api: naming(apiOf(value, connection), connection), release };
}

/** Runs around each request. */
type Around = <T>(request: () => Promise<T>, signal: AbortSignal) => Promise<T>;

class WrappedApi implements Api {
  readonly #api: Api;
  readonly #run: Around;

  constructor(api: Api, run: Around) {
    this.#api = api;
    this.#run = run;
  }

  get where(): string {
    return this.#api.where;
  }

  version(signal: AbortSignal): Promise<SystemVersion> {
    return this.#run(() => this.#api.version(signal), signal);
  }

  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    return this.#run(() => this.#api.call(method, params, signal), signal);
  }

  job(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    return this.#run(() => this.#api.job(method, params, signal), signal);
  }
}

/** `api`, with `run` around each request. */
export const wrapped = (api: Api, run: Around): Api => new WrappedApi(api, run);

/** Names the connection in its failures. A refusal stays an ApiError, because its meaning depends on the request. */
const naming = (api: Api, connection: string): Api =>
  wrapped(api, request =>
    request().catch((error: unknown) => {
      const refused = error instanceof ApiError && !isDenied(error) && error.errno !== errnos.noMethod;
      const known = refused ? undefined : apiErrorMapping(error);
      throw known ? new CsiError(known.code, `connection "${connection}": ${known.text}`, { cause: error }) : error;
    }),
  );

import { CsiError } from "../../core/errors.ts";
import { ApiError, errnos, isDenied } from "./api-error.ts";
import { type Api, apiOf, Client } from "./client.ts";
import { apiErrorMapping } from "./meaning.ts";
import { type Server, serverKey } from "./server.ts";

/** The clients of this process, one for each system and account, with how many connections use each. */
const known = new Map<string, { readonly client: Client; users: number }>();

/** A connection's use of a system; `release` ends it, and the last one closes the client. Does no I/O. */
export function leasedApi(server: Server, connection: string): { readonly api: Api; release(): void } {
  const key = serverKey(server);
  const entry = known.get(key) ?? { client: new Client(server), users: 0 };
  known.set(key, entry);
  entry.users++;
  let held = true;
  return {
    api: naming(apiOf(entry.client, connection), connection),
    release() {
      if (!held) return;
      held = false;
      entry.users--;
      if (entry.users > 0) return;
      known.delete(key);
      entry.client.close();
    },
  };
}

/**
 * An API whose failures name the connection, where the way to the system failed or the account may not go on. What the system
 * refused stays an ApiError: whoever asked knows what that means.
 */
function naming(api: Api, connection: string): Api {
  const named = (error: unknown): unknown => {
    const refused = error instanceof ApiError && !isDenied(error) && error.errno !== errnos.noMethod;
    const known = refused ? undefined : apiErrorMapping(error);
    return known ? new CsiError(known.code, `connection "${connection}": ${known.text}`, { cause: error }) : error;
  };
  const told = <T>(work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      throw named(error);
    });
  return {
    where: api.where,
    version: signal => told(api.version(signal)),
    call: (method, params, signal) => told(api.call(method, params, signal)),
    job: (method, params, signal) => told(api.job(method, params, signal)),
  };
}

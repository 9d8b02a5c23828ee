import { type Api, apiOf, Client } from "./client.ts";
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
    api: apiOf(entry.client, connection),
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

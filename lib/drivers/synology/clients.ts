import { Semaphore } from "../../core/semaphore.ts";
import { originOf } from "../../io/dial.ts";
import { type DsmCall, DsmClient, type DsmServer, serverKey } from "./client.ts";

/** Calls of all connections together that one system answers at once; its web server is small. */
const callsAtOnce = 4;

interface Shared<T> {
  readonly value: T;
  users: number;
}

/** What is used by somebody, by key; `last` is what the last user leaves behind. */
class SharedByKey<T> {
  readonly #held = new Map<string, Shared<T>>();

  take(key: string, make: () => T): T {
    const shared = this.#held.get(key) ?? { value: make(), users: 0 };
    this.#held.set(key, shared);
    shared.users++;
    return shared.value;
  }

  /** The value when nobody uses it any more. */
  leave(key: string): T | undefined {
    const shared = this.#held.get(key);
    if (!shared || --shared.users > 0) return undefined;
    this.#held.delete(key);
    return shared.value;
  }
}

const turns = new SharedByKey<Semaphore>();
const clients = new SharedByKey<DsmClient>();

/** One connection's use of a DSM. */
export interface Dsm {
  readonly where: string;
  /** As DsmClient.call. */
  call(what: DsmCall, signal: AbortSignal): Promise<unknown>;
  /** Ends the use; the last one logs out. */
  release(): Promise<void>;
}

/** A connection's use of a system, whose session and turns it shares with others. Does no I/O. */
export function leasedDsm(server: DsmServer, connection: string): Dsm {
  const place = originOf(server.http);
  const key = serverKey(server);
  const client = clients.take(
    key,
    () =>
      new DsmClient(
        server,
        turns.take(place, () => new Semaphore(callsAtOnce)),
      ),
  );
  let held = true;
  return {
    where: place,
    call: (what, signal) => client.call(connection, what, signal),
    async release() {
      if (!held) return;
      held = false;
      if (!clients.leave(key)) return;
      turns.leave(place);
      await client.close();
    },
  };
}

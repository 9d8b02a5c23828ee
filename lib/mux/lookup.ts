import type { Call } from "../core/call.ts";
import type { FoundVolume } from "../drivers/driver.ts";
import type { Breakers } from "./breakers.ts";
import type { Connection } from "./connection.ts";
import type { ResponseTimeout } from "./response-timeout.ts";

/** What stands on a connection under the name of a volume. Throws "unavailable" when it does not answer in time. */
export class Lookup {
  readonly #patience: ResponseTimeout;
  readonly #breakers: Breakers;

  constructor(patience: ResponseTimeout, breakers: Breakers) {
    this.#patience = patience;
    this.#breakers = breakers;
  }

  /** The volume of this name or what was begun of it; undefined also where the driver cannot look up by name. */
  async find(connection: Connection, name: string, call: Call): Promise<FoundVolume | undefined> {
    const { names } = connection.driver;
    if (!names) return undefined;
    return this.#breakers.ask(connection, () => this.#patience.ask(connection, call, own => names.find(name, own)));
  }

  /**
   * Removes what an interrupted creation of this name left, because the repeat goes elsewhere; a whole volume stays, and is the
   * answer. The caller holds the lock of the volume.
   */
  async clear(connection: Connection, name: string, call: Call): Promise<FoundVolume | undefined> {
    const found = await this.find(connection, name, call);
    if (found?.kind !== "unfinished") return found;
    await this.#breakers.ask(connection, () => connection.driver.delete(found.id, call));
    return undefined;
  }
}

import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Context } from "../drivers/driver.ts";
import type { Breakers } from "./breakers.ts";
import type { Connection } from "./connection.ts";
import type { ResponseTimeout } from "./response-timeout.ts";
import type { StorageFigures } from "./storage-figures.ts";

/** Asks connections how much is free, and remembers what they said. */
export class FreeSpace {
  readonly #patience: ResponseTimeout;
  readonly #breakers: Breakers;
  readonly #known: StorageFigures;

  /** `patience` is how long a connection may take. */
  constructor(patience: ResponseTimeout, breakers: Breakers, known: StorageFigures) {
    this.#patience = patience;
    this.#breakers = breakers;
    this.#known = known;
  }

  /** Bytes that a new volume may take; undefined when the driver cannot tell. Throws "unavailable" when there is no answer in time. */
  async on(connection: Connection, parameters: Context, call: Call): Promise<bigint | undefined> {
    const { capacity } = connection.driver;
    if (!capacity) return undefined;
    try {
      const bytes = await this.#breakers.ask(connection, () =>
        this.#patience.ask(connection, call, own => capacity.available(parameters, own)),
      );
      this.#known.free(connection.name, bytes);
      return bytes;
    } catch (error) {
      if (error instanceof CsiError && error.code === "unimplemented") return undefined;
      throw error;
    }
  }
}

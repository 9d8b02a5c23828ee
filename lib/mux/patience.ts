import { CsiError } from "../core/errors.ts";
import type { Driver } from "../drivers/driver.ts";
import type { Connection } from "./connection.ts";

type Asked = Pick<Connection, "name" | "driver" | "suspended">;

/**
 * Questions with a time limit, for a storage that is dead in such a way that its calls never end (a hard NFS mount).
 * Each of these holds a thread of the process, so who has not answered one is not asked another until it has; a connection
 * that was opened anew is given another chance, unless that was to suspend it.
 */
export class Patience {
  readonly #silent = new Map<string, Driver>();
  readonly #ms: number;

  /** `ms` is how long a connection may take, in milliseconds. */
  constructor(ms: number) {
    this.#ms = ms;
  }

  /** The answer to `question`, which only looks. Throws "unavailable" when there is none in time. */
  async ask<T>(connection: Asked, question: () => Promise<T>): Promise<T> {
    const { name, driver, suspended } = connection;
    const none = () => new CsiError("unavailable", `connection "${name}" has not answered for ${this.#ms / 1000} s`);
    const silent = this.#silent.get(name);
    if (silent === driver || (silent && suspended)) throw none();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const answer = question();
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        this.#silent.set(name, driver);
        const awake = () => void this.#silent.delete(name);
        answer.then(awake, awake);
        reject(none());
      }, this.#ms);
    });
    return Promise.race([answer, late]).finally(() => clearTimeout(timer));
  }
}

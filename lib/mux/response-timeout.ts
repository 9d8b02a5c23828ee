import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Driver } from "../drivers/driver.ts";
import type { Connection } from "./connection.ts";

type Asked = Pick<Connection, "name" | "driver" | "suspended">;

/** Keeps a connection open until a piece of work on it has settled, whoever waits for that. */
export type Keep = (connection: Asked, work: Promise<unknown>) => void;

/**
 * Questions with a time limit. One that is late is aborted, which ends a command or a request; but a call to a dead mount of NFS ends
 * for no signal and holds a thread of the process. So a connection that has not answered one question, not even with the failure of
 * the aborted one, is not asked another until it has; one that was opened again since is, unless that was to suspend it.
 */
export class ResponseTimeout {
  readonly #silent = new Map<string, Driver>();
  readonly #ms: number;
  readonly #keep: Keep;
  readonly #late: (connection: Asked) => void;

  /** `ms` is how long a connection may take, in milliseconds; `late` is told of each one that took longer. */
  constructor(ms: number, keep: Keep, late: (connection: Asked) => void = () => {}) {
    this.#ms = ms;
    this.#keep = keep;
    this.#late = late;
  }

  /** The answer to `question`, which only looks. Throws "unavailable" when there is none in time. */
  async ask<T>(connection: Asked, call: Call, question: (call: Call) => Promise<T>): Promise<T> {
    const { name, driver, suspended } = connection;
    const none = () => new CsiError("unavailable", `connection "${name}" has not answered for ${this.#ms / 1000} s`);
    const silent = this.#silent.get(name);
    if (silent === driver || (silent && suspended)) throw none();
    const limit = new AbortController();
    const leave = () => limit.abort(call.signal.reason);
    if (call.signal.aborted) leave();
    else call.signal.addEventListener("abort", leave, { once: true });
    const answer = question({ id: call.id, log: call.log, secrets: call.secrets, signal: limit.signal });
    this.#keep(connection, answer);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        this.#silent.set(name, driver);
        const awake = () => void (this.#silent.get(name) === driver && this.#silent.delete(name));
        answer.then(awake, awake);
        this.#late(connection);
        reject(none());
        limit.abort(none());
      }, this.#ms);
    });
    return Promise.race([answer, late]).finally(() => {
      clearTimeout(timer);
      call.signal.removeEventListener("abort", leave);
    });
  }
}

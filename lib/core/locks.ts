import { CsiError } from "./errors.ts";

/** One operation for each key. Taking is synchronous, so there is no gap between looking and taking. */
export class Locks {
  readonly #held = new Set<string>();

  /** Runs `work` holding all `keys`; throws "aborted" at once when one of them is held (CSI "Concurrency"). */
  async hold<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    const busy = keys.find(key => this.#held.has(key));
    if (busy !== undefined) {
      throw new CsiError("aborted", `another operation on "${busy}" is in progress; repeat the call`);
    }
    for (const key of keys) this.#held.add(key);
    try {
      return await work();
    } finally {
      for (const key of keys) this.#held.delete(key);
    }
  }
}

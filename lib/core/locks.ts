import { CsiError } from "./errors.ts";

const exclusive = -1;

/**
 * One writing operation for each key, any number of reading ones.
 * Taking is synchronous, so there is no gap between looking and taking.
 */
export class Locks {
  /** -1: held for writing; n > 0: held n times for reading. */
  readonly #held = new Map<string, number>();

  /**
   * Runs `work` holding `keys` for writing and `shared` for reading.
   * Throws "aborted" at once, without waiting, when one of them is taken the other way (CSI "Concurrency").
   */
  async hold<T>(keys: readonly string[], work: () => Promise<T>, shared: readonly string[] = []): Promise<T> {
    const busy = keys.find(key => this.#held.has(key)) ?? shared.find(key => this.#held.get(key) === exclusive);
    if (busy !== undefined) {
      throw new CsiError("aborted", `another operation on "${busy}" is in progress; repeat the call`);
    }
    for (const key of keys) this.#held.set(key, exclusive);
    for (const key of shared) this.#held.set(key, (this.#held.get(key) ?? 0) + 1);
    try {
      return await work();
    } finally {
      for (const key of keys) this.#held.delete(key);
      for (const key of shared) this.#release(key);
    }
  }

  #release(key: string): void {
    const count = this.#held.get(key) ?? 0;
    if (count > 1) this.#held.set(key, count - 1);
    else this.#held.delete(key);
  }
}

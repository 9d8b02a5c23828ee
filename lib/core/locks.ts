import { CsiError } from "./errors.ts";

const exclusive = -1;

/**
 * One writer or any number of readers for each key.
 * Locking is synchronous, so there is no gap between check and lock.
 */
export class TryLocks {
  /** -1: held for writing; n > 0: held n times for reading. */
  readonly #held = new Map<string, number>();

  /**
   * Runs `work` while holding `keys` for writing and `shared` for reading.
   * Throws "aborted" immediately if one of them is held in a conflicting mode (CSI "Concurrency").
   */
  async hold<T>(keys: readonly string[], work: () => Promise<T>, shared: readonly string[] = []): Promise<T> {
    const busy = keys.find(key => this.#held.has(key)) ?? shared.find(key => this.#held.get(key) === exclusive);
    if (busy !== undefined) {
      throw new CsiError("aborted", `another operation on "${busy}" is in progress`);
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

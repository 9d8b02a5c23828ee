import { CsiError } from "./errors.ts";

const exclusive = -1;

/**
 * Adds keys to those that the work holds; all are released together. Keys that it already holds for writing are skipped. Throws
 * "aborted" like `hold`.
 */
export type AddKeys = (keys: readonly string[], shared?: readonly string[]) => void;

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
  async hold<T>(
    keys: readonly string[],
    work: (add: AddKeys) => Promise<T>,
    shared: readonly string[] = [],
  ): Promise<T> {
    const written = new Set<string>();
    const read: string[] = [];
    const add: AddKeys = (more, moreShared = []) => {
      const wanted = more.filter(key => !written.has(key));
      const readable = moreShared.filter(key => !written.has(key) && !wanted.includes(key));
      const busy = wanted.find(key => this.#held.has(key)) ?? readable.find(key => this.#held.get(key) === exclusive);
      if (busy !== undefined) throw new CsiError("aborted", `another operation on "${busy}" is in progress`);
      for (const key of wanted) this.#held.set(key, exclusive);
      for (const key of readable) this.#held.set(key, (this.#held.get(key) ?? 0) + 1);
      for (const key of wanted) written.add(key);
      read.push(...readable);
    };
    add(keys, shared);
    try {
      return await work(add);
    } finally {
      for (const key of written) this.#held.delete(key);
      for (const key of read) this.#release(key);
    }
  }

  #release(key: string): void {
    const count = this.#held.get(key) ?? 0;
    if (count > 1) this.#held.set(key, count - 1);
    else this.#held.delete(key);
  }
}

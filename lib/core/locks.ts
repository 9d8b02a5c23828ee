import { CsiError } from "./errors.ts";

const exclusive = -1;

/** How keys are held: `count` is `exclusive` for writing, n > 0 for n readers; `waiting` are called when the key is free. */
type Held = Map<string, { readonly count: number; readonly waiting: (() => void)[] }>;

const ends = new WeakMap<object, Promise<unknown>>();

/** A refusal because of another operation that ends with `end`. */
export function busy(what: string, end: Promise<unknown> = Promise.resolve()): CsiError {
  const error = new CsiError("aborted", `another operation on "${what}" is in progress`);
  ends.set(error, end);
  return error;
}

/** Resolves at the end of the operation that was the reason of this failure; undefined if another one was. */
export const endOf = (error: unknown): Promise<unknown> | undefined =>
  error instanceof CsiError ? ends.get(error) : undefined;

/**
 * One writer or any number of readers for each key.
 * Locking is synchronous, so there is no gap between check and lock.
 */
export class TryLocks {
  readonly #held: Held = new Map();

  /**
   * Holds `keys` for writing and `shared` for reading until the result is disposed of (`using`).
   * Throws "aborted" (`busy`) immediately if one of them is held in a conflicting mode (CSI "Concurrency").
   */
  lock(keys: readonly string[], shared: readonly string[] = []): HeldLocks {
    const held = new HeldLocks(this.#held);
    held.add(keys, shared);
    return held;
  }

  /** Runs `work` with these locks. */
  async hold<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    using _held = this.lock(keys);
    return await work();
  }
}

/** Keys that one operation holds; all are released together. */
export class HeldLocks {
  readonly #held: Held;
  readonly #written = new Set<string>();
  readonly #read: string[] = [];

  constructor(held: Held) {
    this.#held = held;
  }

  /** Holds further keys. Those that are already held for writing are skipped. Throws "aborted" like `lock`, and then adds none. */
  add(keys: readonly string[], shared: readonly string[] = []): void {
    const wanted = keys.filter(key => !this.#written.has(key));
    const readable = shared.filter(key => !this.#written.has(key) && !wanted.includes(key));
    const taken = wanted.find(key => this.#held.has(key)) ?? readable.find(key => this.#count(key) === exclusive);
    if (taken !== undefined)
      throw busy(taken, new Promise(free => this.#held.get(taken)?.waiting.push(() => free(true))));
    for (const key of wanted) this.#hold(key, exclusive);
    for (const key of readable) this.#hold(key, this.#count(key) + 1);
    for (const key of wanted) this.#written.add(key);
    this.#read.push(...readable);
  }

  /** Releases all keys. */
  [Symbol.dispose](): void {
    for (const key of this.#written) this.#hold(key, 0);
    for (const key of this.#read) this.#hold(key, this.#count(key) - 1);
  }

  #count(key: string): number {
    return this.#held.get(key)?.count ?? 0;
  }

  #hold(key: string, count: number): void {
    const { waiting } = this.#held.get(key) ?? { waiting: [] };
    if (count !== 0) return void this.#held.set(key, { count, waiting });
    this.#held.delete(key);
    for (const free of waiting) free();
  }
}

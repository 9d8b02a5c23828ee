import { CsiError } from "./errors.ts";

const exclusive = -1;

/** How keys are held: `exclusive` for writing, n > 0 for n readers. */
type Held = Map<string, number>;

/** By key: what resolves when the key, which refused an operation, is free. */
type Awaited = Map<string, ReturnType<typeof Promise.withResolvers<void>>>;

const ends = new WeakMap<object, Promise<unknown>>();

/** A refusal because of another operation that ends with `end`, which does not reject. */
export function busy(what: string, end: Promise<unknown>): CsiError {
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
  readonly #awaited: Awaited = new Map();

  /**
   * Holds `keys` for writing and `shared` for reading until the result is disposed of (`using`).
   * Throws "aborted" (`busy`) immediately if one of them is held in a conflicting mode (CSI "Concurrency").
   */
  lock(keys: readonly string[], shared: readonly string[] = []): HeldLocks {
    const held = new HeldLocks(this.#held, this.#awaited);
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
  readonly #awaited: Awaited;
  readonly #written = new Set<string>();
  readonly #read: string[] = [];

  constructor(held: Held, awaited: Awaited) {
    this.#held = held;
    this.#awaited = awaited;
  }

  /** Holds further keys. Those that are already held for writing are skipped. Throws "aborted" like `lock`, and then adds none. */
  add(keys: readonly string[], shared: readonly string[] = []): void {
    const wanted = keys.filter(key => !this.#written.has(key));
    const readable = shared.filter(key => !this.#written.has(key) && !wanted.includes(key));
    const taken = wanted.find(key => this.#held.has(key)) ?? readable.find(key => this.#held.get(key) === exclusive);
    if (taken !== undefined) throw busy(taken, this.#end(taken));
    for (const key of wanted) this.#held.set(key, exclusive);
    for (const key of readable) this.#held.set(key, (this.#held.get(key) ?? 0) + 1);
    for (const key of wanted) this.#written.add(key);
    this.#read.push(...readable);
  }

  /** Releases all keys. */
  [Symbol.dispose](): void {
    for (const key of this.#written) this.#free(key);
    for (const key of this.#read) {
      const count = this.#held.get(key) ?? 0;
      if (count > 1) this.#held.set(key, count - 1);
      else this.#free(key);
    }
  }

  #end(key: string): Promise<void> {
    const awaited = this.#awaited.get(key) ?? Promise.withResolvers<void>();
    this.#awaited.set(key, awaited);
    return awaited.promise;
  }

  #free(key: string): void {
    this.#held.delete(key);
    this.#awaited.get(key)?.resolve();
    this.#awaited.delete(key);
  }
}

/** A share in an object with several users. */
export interface Lease<T> {
  readonly value: T;
  /**
   * Ends the use of the object; a second call has no effect. Resolves once everything that must close immediately is
   * closed.
   */
  release(): Promise<void>;
}

/** An object that can be shared; it is closed when its last user has released it. */
export interface Closable {
  close(): void | Promise<void>;
}

interface Holding<T> {
  readonly value: T;
  users: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/**
 * Shares objects by key: each is created for its first user and closed `idleMs` milliseconds after its last user has
 * released it; if `idleMs` is 0, as part of that release.
 */
export class SharedInstances<T extends Closable> {
  readonly #idleMs: number;
  readonly #held = new Map<string, Holding<T>>();

  constructor(idleMs: number) {
    this.#idleMs = idleMs;
  }

  lease(key: string, make: () => T): Lease<T> {
    const holding = this.#held.get(key) ?? { value: make(), users: 0, timer: undefined };
    this.#held.set(key, holding);
    clearTimeout(holding.timer);
    holding.users++;
    let released = false;
    return {
      value: holding.value,
      release: async () => {
        if (released) return;
        released = true;
        holding.users--;
        if (holding.users > 0 || this.#held.get(key) !== holding) return;
        if (this.#idleMs === 0) return this.#drop(key, holding);
        holding.timer = setTimeout(() => void this.#drop(key, holding), this.#idleMs);
        holding.timer.unref();
      },
    };
  }

  /** Closes all objects, in use or not. */
  async close(): Promise<void> {
    await Promise.all([...this.#held].map(([key, holding]) => this.#drop(key, holding)));
  }

  async #drop(key: string, holding: Holding<T>): Promise<void> {
    clearTimeout(holding.timer);
    this.#held.delete(key);
    await holding.value.close();
  }
}

/** Something shared by several users, for as long as one of them needs it. */
export interface Lease<T> {
  readonly value: T;
  /** Says that it is not needed any more; a second time does nothing. Resolves when what had to be closed at once is closed. */
  release(): Promise<void>;
}

/** What can be shared: it is closed when nobody needs it. */
export interface Closable {
  close(): Promise<void>;
}

interface Holding<T> {
  readonly value: T;
  users: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/** Things by key, each made for its first user and closed `idleMs` milliseconds after the last one has left. */
export class Sharing<T extends Closable> {
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
        holding.timer = setTimeout(() => void this.#drop(key, holding), this.#idleMs);
        holding.timer.unref();
      },
    };
  }

  /** Closes everything, in use or not. */
  async close(): Promise<void> {
    await Promise.all([...this.#held].map(([key, holding]) => this.#drop(key, holding)));
  }

  async #drop(key: string, holding: Holding<T>): Promise<void> {
    clearTimeout(holding.timer);
    this.#held.delete(key);
    await holding.value.close();
  }
}

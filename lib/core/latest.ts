/** One thing that is being read by somebody. */
interface Reading<T> {
  running: number;
  /** How many reads have begun. */
  begun: number;
  /** The read, by its number, that began last of those that have ended. */
  newest: number;
  value: T | undefined;
}

/**
 * Reads that overlap, in the order in which they began: one that ends after a later one gives the answer of the later one. So nobody
 * who looks twice sees something old after something new. Things are told apart by name; what nobody reads takes no memory.
 */
export class Latest<T> {
  readonly #readings = new Map<string, Reading<T>>();

  /** What `read` gives, or a read of the same name that began later and has ended before. Rejects only as the own read does. */
  async read(name: string, read: () => Promise<T>): Promise<T> {
    const reading = this.#readings.get(name) ?? { running: 0, begun: 0, newest: 0, value: undefined };
    this.#readings.set(name, reading);
    const own = ++reading.begun;
    reading.running++;
    try {
      const value = await read();
      if (own < reading.newest) return reading.value as T;
      reading.newest = own;
      reading.value = value;
      return value;
    } finally {
      if (--reading.running === 0) this.#readings.delete(name);
    }
  }
}

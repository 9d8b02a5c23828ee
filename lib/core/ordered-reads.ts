/** A value with reads in progress. */
interface ReadInProgress<T> {
  running: number;
  /** The number of reads started. */
  begun: number;
  /** The number of the most recently started read among those that have ended. */
  newest: number;
  value: T | undefined;
}

/**
 * Orders overlapping reads by their start: a read that ends after a later one returns the later one's answer, so that a
 * caller never gets an old value after a new one. Reads are distinguished by name; a name without reads in progress
 * uses no memory.
 */
export class OrderedReads<T> {
  readonly #readings = new Map<string, ReadInProgress<T>>();

  /**
   * The result of `read`, or of a read of the same name that started later and ended earlier. Rejects only if `read`
   * rejects.
   */
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

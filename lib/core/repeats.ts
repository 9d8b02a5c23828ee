/** The number of different lines remembered; the oldest are forgotten first. */
const most = 1_000;

/** Limits repeated log lines: the first is written, then one per interval with the number of those suppressed. */
export class RepeatedLines {
  readonly #everyMs: number;
  readonly #now: () => number;
  readonly #seen = new Map<string, { at: number; held: number }>();

  /** `now` returns milliseconds. */
  constructor(everyMs = 600_000, now: () => number = () => performance.now()) {
    this.#everyMs = everyMs;
    this.#now = now;
  }

  /** The number of equal lines suppressed since the last one; undefined if this one must be suppressed, too. */
  due(line: string): number | undefined {
    const now = this.#now();
    const seen = this.#seen.get(line);
    if (seen && now - seen.at < this.#everyMs) {
      seen.held++;
      return undefined;
    }
    this.#seen.delete(line);
    this.#seen.set(line, { at: now, held: 0 });
    const [oldest] = this.#seen.keys();
    if (this.#seen.size > most && oldest !== undefined) this.#seen.delete(oldest);
    return seen?.held ?? 0;
  }
}

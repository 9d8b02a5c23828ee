/** How many different lines are remembered; the oldest go first. */
const most = 1_000;

/** Lines of a log that would come again and again: the first is written, then one after each interval that says how many there were. */
export class Repeats {
  readonly #everyMs: number;
  readonly #now: () => number;
  readonly #seen = new Map<string, { at: number; held: number }>();

  /** `now` gives milliseconds. */
  constructor(everyMs = 600_000, now: () => number = () => performance.now()) {
    this.#everyMs = everyMs;
    this.#now = now;
  }

  /** How many equal lines were held back since the last one; undefined when this one is to be held back, too. */
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

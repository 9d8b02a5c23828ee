/**
 * How long the turns of a copy by rsync are. rsync begins again with the file that it was copying when a turn ended. Small files that change
 * all the time are copied in each turn, so their number does not tell whether a large one ever arrives: the time that the end cut off does.
 */
export class TurnLength {
  readonly #usual: number;
  readonly #now: () => number;
  #times = 1;
  /** When the turn began, or its last file had been copied. */
  #since: number;

  /** `usual`: the milliseconds of a turn. `now`: a monotonic clock in milliseconds. */
  constructor(usual: number, now: () => number = () => performance.now()) {
    this.#usual = usual;
    this.#now = now;
    this.#since = now();
  }

  /** The milliseconds of the next turn. */
  get ms(): number {
    return this.#usual * this.#times;
  }

  /** A turn has begun, or a file has been copied in it. */
  moved(): void {
    this.#since = this.#now();
  }

  /** A turn has ended before the copy. The next one is twice as long if half of this one was spent on a file that begins again. */
  cut(): void {
    this.#times = this.#now() - this.#since >= this.ms / 2 ? 2 * this.#times : 1;
  }
}

/** The longest delay before the first round, in milliseconds; a process that has just started has more urgent work. */
const firstMs = 5_000;

/** The shortest time limit of a round, in milliseconds. */
const leastMs = 30_000;

/** Repeats work at an interval; a slow round delays the next one. */
export class PeriodicRounds {
  readonly #everyMs: number;
  readonly #work: (signal: AbortSignal) => Promise<void>;
  readonly #stop = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `work` gets a signal that aborts when the round exceeds its time limit, and on `stop`. It never rejects. */
  constructor(everyMs: number, work: (signal: AbortSignal) => Promise<void>) {
    this.#everyMs = everyMs;
    this.#work = work;
  }

  /** Starts the timer without keeping the process alive. */
  start(): void {
    this.#next(Math.min(this.#everyMs, firstMs));
  }

  /** Stops the timer and aborts a running round. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#stop.abort();
  }

  #next(ms: number): void {
    this.#timer = setTimeout(() => {
      const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(Math.max(this.#everyMs, leastMs))]);
      void this.#work(signal).finally(() => {
        if (!this.#stop.signal.aborted) this.#next(this.#everyMs);
      });
    }, ms);
    this.#timer.unref();
  }
}

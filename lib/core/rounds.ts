/** How long the first round is waited for at most, in milliseconds: a process that has just started has other things to do. */
const firstMs = 5_000;

/** The least time that a round gets, in milliseconds. */
const leastMs = 30_000;

/** Does something again and again; a round that takes its time delays the next one. */
export class Rounds {
  readonly #everyMs: number;
  readonly #work: (signal: AbortSignal) => Promise<void>;
  readonly #stop = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `work` gets a signal that aborts when it has taken too long, and at the end. It never rejects. */
  constructor(everyMs: number, work: (signal: AbortSignal) => Promise<void>) {
    this.#everyMs = everyMs;
    this.#work = work;
  }

  /** Begins; the process may end all the same. */
  start(): void {
    this.#next(Math.min(this.#everyMs, firstMs));
  }

  /** Ends; a round that is running is aborted. */
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

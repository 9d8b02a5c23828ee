import { setTimeout as sleep } from "node:timers/promises";

/** Like `work`, but rejects with `reason()` as soon as the signal aborts; `work` then continues in the background. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, reason: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(reason());
    // Before the check, so that a failure of abandoned work is always handled.
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
  });
}

/** Waits `ms` milliseconds; rejects with the signal's reason if it aborts first. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
}

/**
 * Calls with a time limit, for file systems on which a call may hang forever (a mount whose server is gone).
 * A hanging call holds a thread of the process, so `ask` makes no further call for the same name until it has returned.
 */
export class TimeLimit {
  readonly #ms: number;
  readonly #silent = new Set<string>();

  constructor(ms: number) {
    this.#ms = ms;
  }

  /**
   * The answer for `who`. Throws the error of `none` after the time limit, and immediately while an earlier call still
   * hangs.
   */
  async ask<T>(who: string, question: () => Promise<T>, none: () => Error): Promise<T> {
    if (this.#silent.has(who)) throw none();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const answer = question();
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        this.#silent.add(who);
        const awake = () => void this.#silent.delete(who);
        answer.then(awake, awake);
        reject(none());
      }, this.#ms);
    });
    return Promise.race([answer, late]).finally(() => clearTimeout(timer));
  }
}

/**
 * Whether `work` settles within `ms` milliseconds. Never rejects; work that takes longer continues in the background.
 */
export async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>(resolve => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const settled = work.then(
    () => true,
    () => true,
  );
  return Promise.race([settled, late]).finally(() => clearTimeout(timer));
}

/** The longest delay before the first round, in milliseconds; a process that has just started has more urgent work. */
const firstMs = 5_000;

/** The least usual time limit of a round, in milliseconds. */
const leastMs = 30_000;

/** Repeats work at an interval; a slow round delays the next one. */
export class PeriodicRounds {
  readonly #everyMs: number;
  readonly #work: (signal: AbortSignal) => Promise<void>;
  readonly #stop = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `work` gets a signal that aborts when the round takes as long as the interval, or 30 s if that is longer, and on `stop`. It never rejects. */
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

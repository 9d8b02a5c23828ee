/** A mutex per name; waiting work runs in the order of its arrival. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<void>>();

  /**
   * Runs `work` after all earlier work under `name` has ended. Rejects with the signal's reason if it aborts before
   * that.
   */
  async take<T>(name: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name) ?? Promise.resolve();
    let done = (): void => {};
    const own = new Promise<void>(resolve => {
      done = resolve;
    });
    const after = before.then(() => own);
    this.#last.set(name, after);
    void after.then(() => {
      if (this.#last.get(name) === after) this.#last.delete(name);
    });
    try {
      await untilAborted(before, signal);
      return await work();
    } finally {
      done();
    }
  }
}

/** Like `work`, but rejects with the reason of `signal` as soon as it aborts. */
async function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

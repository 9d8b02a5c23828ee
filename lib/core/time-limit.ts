/**
 * Calls with a time limit, for file systems on which a call may hang for ever (a mount whose server is gone).
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

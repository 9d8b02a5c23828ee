/**
 * Questions with a time limit, for what may be dead in such a way that a call to it never ends (a mount whose server has gone).
 * Each of these holds a thread of the process, so who has not answered one is not asked another until it has.
 */
export class TimeLimit {
  readonly #ms: number;
  readonly #silent = new Set<string>();

  constructor(ms: number) {
    this.#ms = ms;
  }

  /** The answer of `who`. Throws what `none` makes when there is none in time, and at once while an earlier one is missing. */
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

/** Whether `work` settles within so many milliseconds. Never rejects; work that takes longer continues on its own. */
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

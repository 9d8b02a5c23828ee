import { slotsByName } from "../core/slots.ts";
import { bounded } from "./files.ts";

/** One piece of work at a time for each name, in the order in which they came. */
export class Turns {
  readonly #slotsOf = slotsByName(1);

  /** Does the work when its turn has come; at once where there is no name. Throws "unavailable" when the call ends before. */
  async take<T>(name: string | undefined, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (name === undefined) return await work();
    const begun = Promise.withResolvers<void>();
    const done = Promise.withResolvers<void>();
    void this.#slotsOf(name).run(() => {
      begun.resolve();
      return done.promise;
    });
    try {
      await bounded(begun.promise, `waiting for other work on "${name}"`, signal);
      return await work();
    } finally {
      done.resolve();
    }
  }
}

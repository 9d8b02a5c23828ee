import type { Semaphore } from "../core/semaphore.ts";

/**
 * `work` once at a time for each key, shared by all who wait for it, also for a slot. What runs already is not shared: it may have missed
 * what happened just before the call.
 */
export function sharedNext<T>(
  work: (key: string) => Promise<T>,
  slotsOf?: (key: string) => Semaphore,
): (key: string) => Promise<T> {
  const last = new Map<string, Promise<void>>();
  const waiting = new Map<string, Promise<T>>();
  const next = async (key: string): Promise<T> => {
    // Waits in any case: the caller puts this on the map only afterwards.
    await last.get(key);
    const begin = () => {
      waiting.delete(key);
      return work(key);
    };
    return slotsOf ? slotsOf(key).run(begin) : begin();
  };
  return key => {
    const known = waiting.get(key);
    if (known) return known;
    const own = next(key);
    waiting.set(key, own);
    const end = () => {
      if (last.get(key) === ended) last.delete(key);
    };
    const ended: Promise<void> = own.then(end, end);
    last.set(key, ended);
    return own;
  };
}

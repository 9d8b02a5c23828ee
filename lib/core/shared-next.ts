/**
 * `work` once at a time for each key, shared by all who wait for it. What runs already is not shared: it may have missed what happened
 * just before the call.
 */
export function sharedNext<T>(work: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const running = new Map<string, Promise<T>>();
  const waiting = new Map<string, Promise<T>>();
  const begin = (key: string): Promise<T> => {
    const own = work(key);
    running.set(key, own);
    const end = () => void running.delete(key);
    own.then(end, end);
    return own;
  };
  return key => {
    const before = running.get(key);
    if (before === undefined) return begin(key);
    const start = () => {
      waiting.delete(key);
      return begin(key);
    };
    const next = waiting.get(key) ?? before.then(start, start);
    waiting.set(key, next);
    return next;
  };
}

/** Runs at most `count` pieces of work at once; the others wait in the order in which they came. */
export function slotsOf(count: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let free = count;
  return async work => {
    if (free > 0) free--;
    else await new Promise<void>(resolve => waiting.push(resolve));
    try {
      return await work();
    } finally {
      // A slot is handed on, never put back while somebody waits for it.
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  };
}

/**
 * The defined results of several tasks, once all have ended or `graceMs` after the first result, so that a dead path
 * does not delay working ones. Rejects with the signal's reason when that aborts.
 */
export async function resultsWithGrace<T>(
  work: readonly Promise<T | undefined>[],
  graceMs: number,
  signal: AbortSignal,
): Promise<readonly T[]> {
  const done: T[] = [];
  const all = Promise.all(
    work.map(async each => {
      const result = await each;
      if (result !== undefined) done.push(result);
    }),
  );
  const first = Promise.any(work.map(async each => (await each) ?? Promise.reject(new Error("nothing"))));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const grace = first.then(
    () => new Promise<void>(resolve => (timer = setTimeout(resolve, graceMs))),
    () => {},
  );
  await Promise.race([all, grace.then(() => first.catch(() => all))]);
  clearTimeout(timer);
  signal.throwIfAborted();
  return [...done];
}

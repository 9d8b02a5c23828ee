/**
 * The results of `work` for all items, in their order. At most `limit` run at once, and the next starts when any of
 * them ends, so that slow items do not delay the others. Rejects with the first failure and starts nothing more; items
 * already running continue in the background.
 */
export async function mapLimit<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const results = new Array<R>(items.length);
  const left = items.entries();
  let failed = false;
  const worker = async (): Promise<void> => {
    // All workers share one iterator.
    for (const [index, item] of left) {
      if (failed) return;
      try {
        results[index] = await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return results;
}

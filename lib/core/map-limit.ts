/**
 * The results of `work` for all items, in their order. At most `limit` run at once, and the next begins as soon as any of them ends,
 * so that a few slow ones delay nothing but themselves. Rejects with the first failure, after which nothing more begins; what runs
 * then continues on its own.
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
    // Each worker takes from the same iterator.
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

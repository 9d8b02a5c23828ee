/**
 * Waits until all have ended, also after a failure: nothing may run on when the caller releases its lock. Throws the first failure of the
 * list.
 */
export async function allEnded(work: readonly Promise<unknown>[]): Promise<void> {
  const failed = (await Promise.allSettled(work)).find(each => each.status === "rejected");
  if (failed) throw failed.reason;
}

import { setTimeout as sleep } from "node:timers/promises";

/** Waits so many milliseconds; rejects with the reason of the signal when that comes first. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
}

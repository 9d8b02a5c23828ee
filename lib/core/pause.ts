import { setTimeout as sleep } from "node:timers/promises";

/** Waits `ms` milliseconds; rejects with the signal's reason if it aborts first. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
}

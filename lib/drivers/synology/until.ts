import { setTimeout as pause } from "node:timers/promises";
import type { Call } from "../../core/call.ts";
import { type FailureContext, throwIfCancelled } from "../failure.ts";

/**
 * Asks `look` until it answers something, ever less often; undefined when `limitMs` have passed. Short, because callers wait:
 * what takes longer is "aborted", and the repeat goes on.
 */
export async function until<T>(
  subject: FailureContext,
  look: () => Promise<T | undefined>,
  limitMs: number,
  call: Call,
): Promise<T | undefined> {
  const end = performance.now() + limitMs;
  for (let wait = 20; ; wait = Math.min(wait * 2, 1000)) {
    const found = await look();
    if (found !== undefined || performance.now() + wait > end) return found;
    await pause(wait);
    throwIfCancelled(subject, call);
  }
}

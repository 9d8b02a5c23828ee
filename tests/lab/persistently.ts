import { setTimeout as pause } from "node:timers/promises";
import { status } from "../serve/world.ts";

/** Codes after which a sidecar repeats a call. */
export const passing: readonly (number | string)[] = [1, status.deadlineExceeded, status.aborted, status.unavailable];

/** Repeats a call as a sidecar does, with a pause, until it succeeds or fails for good; fifteen minutes at most. */
export async function persistently<T>(call: () => Promise<T>): Promise<T> {
  const until = Date.now() + 900_000;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (Date.now() > until || !passing.includes((error as { code: number }).code)) throw error;
      await pause(500);
    }
  }
}

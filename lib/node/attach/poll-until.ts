import { CsiError } from "../../core/errors.ts";
import { pause } from "../../core/pause.ts";

const stepMs = 50;

/**
 * Calls `ask` at growing intervals until it returns a value, for at most `ms` milliseconds. Returns undefined if that
 * time passes without one. Throws "unavailable" when the call ends.
 */
export async function pollUntil<T>(
  ms: number,
  ask: () => Promise<T | undefined>,
  task: string,
  signal: AbortSignal,
): Promise<T | undefined> {
  const end = performance.now() + ms;
  for (let wait = stepMs; ; wait = Math.min(2 * wait, 1_000)) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    const left = end - performance.now();
    if (left <= 0) return undefined;
    await pause(Math.min(wait, left), signal).catch(() => {
      throw new CsiError("unavailable", `${task} did not finish before the call ended`);
    });
  }
}

import { CsiError } from "../../core/errors.ts";
import { pause } from "../../core/pause.ts";

const stepMs = 50;

/**
 * Asks until there is an answer, more and more seldom, for so many milliseconds and not longer than the call. Undefined when
 * none came in time. Throws "unavailable" when the call ends.
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

import type { Call, Log } from "../../lib/core/call.ts";
import { PeriodicRounds } from "../../lib/core/time.ts";

/** The interval assumed for checks on request, in milliseconds. */
const askedMs = 30_000;

/**
 * How long a cause must last, and how old a reported check may be, in milliseconds, for checks at this interval; 0: on
 * request.
 */
export const healthTimes = (everyMs: number) => {
  const apart = everyMs || askedMs;
  // Two checks in a row, even if one of them was slightly late.
  return { hold: (apart * 3) / 4, fresh: apart * 2 };
};

/** Runs `check` and `ask` every `everyMs` milliseconds; never for 0. Each by itself, so that neither delays the other. */
export function healthRounds(
  everyMs: number,
  log: Log,
  check: (call: Call) => Promise<void>,
  ask: (call: Call) => Promise<void>,
): Pick<PeriodicRounds, "start" | "stop"> {
  if (everyMs === 0) return { start: () => {}, stop: () => {} };
  const call = (signal: AbortSignal): Call => ({ id: "health", log, signal, secrets: {} });
  const both = [
    new PeriodicRounds(everyMs, signal => check(call(signal))),
    new PeriodicRounds(everyMs, signal => ask(call(signal))),
  ];
  return {
    start: () => {
      for (const each of both) each.start();
    },
    stop: () => {
      for (const each of both) each.stop();
    },
  };
}

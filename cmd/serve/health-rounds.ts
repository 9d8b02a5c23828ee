import type { Call, Log } from "../../lib/core/call.ts";
import { Rounds } from "../../lib/core/rounds.ts";

/** Between two looks that are made only because somebody asks, in milliseconds. */
const askedMs = 30_000;

/** How long a cause must last, and how old a look may be that is told, in milliseconds, for looks so far apart; 0: when asked. */
export const healthTimes = (everyMs: number) => {
  const apart = everyMs || askedMs;
  // Two looks in a row, whatever little time one of them was late.
  return { hold: (apart * 3) / 4, fresh: apart * 2 };
};

/** Looks at something every `everyMs` milliseconds; never for 0. */
export function healthRounds(
  everyMs: number,
  log: Log,
  look: (call: Call) => Promise<void>,
): Pick<Rounds, "start" | "stop"> {
  if (everyMs === 0) return { start: () => {}, stop: () => {} };
  return new Rounds(everyMs, signal => look({ id: "health", log, signal, secrets: {} }));
}

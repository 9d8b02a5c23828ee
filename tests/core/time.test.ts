import { expect, test } from "bun:test";
import { getEventListeners } from "node:events";
import { PeriodicRounds, pause } from "../../lib/core/time.ts";

test("a pause ends with the signal's own reason, before it begins or while it lasts, and leaves nothing on the signal", async () => {
  const ending = new AbortController();
  await pause(1, ending.signal);
  expect(getEventListeners(ending.signal, "abort")).toEqual([]);
  const reason = new Error("the call has ended");
  const long = pause(600_000, ending.signal);
  ending.abort(reason);
  expect(await long.catch(error => error)).toBe(reason);
  expect(await pause(600_000, ending.signal).catch(error => error)).toBe(reason);
});

test("rounds repeat until they are stopped, which also aborts the running one", async () => {
  const signals: AbortSignal[] = [];
  const third = Promise.withResolvers<void>();
  const rounds = new PeriodicRounds(20, async signal => {
    if (signals.push(signal) < 3) return;
    third.resolve();
    await new Promise(resolve => signal.addEventListener("abort", resolve));
  });
  rounds.start();
  await third.promise;
  rounds.stop();
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
});

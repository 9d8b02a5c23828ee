import { expect, test } from "bun:test";
import { getEventListeners } from "node:events";
import { pause } from "../../lib/core/time.ts";

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

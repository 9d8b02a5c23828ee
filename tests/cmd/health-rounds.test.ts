import { expect, test } from "bun:test";
import { healthRounds } from "../../cmd/serve/health-rounds.ts";
import type { Call } from "../../lib/core/call.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { pause } from "../waiting.ts";

test("storages are checked at their interval while the members that were skipped take longer than that to ask", async () => {
  const { log } = testCall();
  let checks = 0;
  let asked = 0;
  let ended = false;
  const check = async () => void checks++;
  const ask = ({ signal }: Call) => {
    asked++;
    return new Promise<void>(resolve =>
      signal.addEventListener("abort", () => {
        ended = true;
        resolve();
      }),
    );
  };
  const rounds = healthRounds(10, log, check, ask);
  rounds.start();
  const until = performance.now() + 10_000;
  while (checks < 5 && performance.now() < until) await pause(5);
  expect([checks >= 5, asked, ended]).toEqual([true, 1, false]);
  rounds.stop();
  expect(ended).toBe(true);
});

import { expect, test } from "bun:test";
import { healthRounds } from "../../cmd/serve/health-rounds.ts";
import type { Call } from "../../lib/core/call.ts";
import { testCall } from "../fakes/memory-driver.ts";

test("storages are checked at their interval while the comparison of a group takes longer than that", async () => {
  const { log } = testCall();
  let checks = 0;
  let comparisons = 0;
  let ended = false;
  const check = async () => void checks++;
  const compare = ({ signal }: Call) => {
    comparisons++;
    return new Promise<void>(resolve =>
      signal.addEventListener("abort", () => {
        ended = true;
        resolve();
      }),
    );
  };
  const rounds = healthRounds(10, log, check, compare);
  rounds.start();
  const until = performance.now() + 10_000;
  while (checks < 5 && performance.now() < until) await Bun.sleep(5);
  expect([checks >= 5, comparisons, ended]).toEqual([true, 1, false]);
  rounds.stop();
  expect(ended).toBe(true);
});

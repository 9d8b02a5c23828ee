import { expect, test } from "bun:test";
import { judged } from "../../scripts/check/weight.ts";

test("what grows beyond its limit is named, and a limit falls with what shrinks, but never rises", () => {
  const { problems, limits } = judged(
    { daemon: 901, tests: 901, scripts: 700 },
    { daemon: 900, tests: 1_100, scripts: 700 },
  );
  expect(problems).toEqual(["daemon: 901 lines, and scripts/check/weight.json allows 900: remove some"]);
  expect(limits).toEqual({ daemon: 900, tests: 1_000, scripts: 700 });
});

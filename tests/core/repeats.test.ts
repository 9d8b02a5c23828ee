import { expect, test } from "bun:test";
import { RepeatedLines } from "../../lib/core/repeats.ts";

test("a line is written once, then after each interval with the number of those held back; another line is its own", () => {
  let now = 0;
  const repeats = new RepeatedLines(1000, () => now);
  expect(["a", "a", "b", "a"].map(line => repeats.due(line))).toEqual([0, undefined, 0, undefined]);
  now = 1000;
  expect(["a", "b", "a"].map(line => repeats.due(line))).toEqual([2, 0, undefined]);
});

test("what is remembered has a bound", () => {
  const repeats = new RepeatedLines(1000, () => 0);
  for (let i = 0; i < 1001; i++) repeats.due(`line ${i}`);
  expect(repeats.due("line 0")).toBe(0);
  expect(repeats.due("line 1000")).toBeUndefined();
});

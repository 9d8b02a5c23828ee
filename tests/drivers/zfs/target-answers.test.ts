import { expect, test } from "bun:test";
import { lastLine, linesOf } from "../../../lib/drivers/zfs/targets/guard.ts";
import type { Output } from "../../../lib/io/runner.ts";

const answer = (stdout: string, exitCode = 0): ReadonlyMap<string, Output> =>
  new Map([["look", { stdout, stderr: "", exitCode }]]);
const whole = `subsystem\nnamespace\nenabled\nport 1\nport 2\n${lastLine}\n`;

test("a complete answer about a target consists of its lines, and may be empty", () => {
  expect([...linesOf(answer(whole), "look")]).toEqual(["subsystem", "namespace", "enabled", "port 1", "port 2"]);
  expect([...linesOf(answer(`${lastLine}\n`), "look")]).toEqual([]);
});

test("an answer that is cut anywhere is refused despite its exit code 0, because a missing target would be left behind", () => {
  for (let at = 0; at < whole.length; at++)
    expect(() => linesOf(answer(whole.slice(0, at)), "look")).toThrow("a part of the answer is missing");
});

test("an answer of a failed step is refused, complete or not", () => {
  expect(() => linesOf(answer(whole, 1), "look")).toThrow("cannot inspect the target");
});

import { expect, test } from "bun:test";
import { CsiError, isFinal } from "../../lib/core/errors.ts";
import { CommandError, type CommandFailure, commandFailure } from "../../lib/io/runner.ts";

test.each<[CommandFailure, string, boolean]>([
  ["missing", "failed-precondition", true],
  ["denied", "failed-precondition", true],
  ["timeout", "deadline-exceeded", false],
  ["cancelled", "deadline-exceeded", false],
  ["killed", "unavailable", false],
  ["spawn", "unavailable", false],
  ["overflow", "unavailable", false],
  ["unreachable", "unavailable", false],
  ["lost", "unavailable", false],
])("a command that ends with %s has the code %s", (failure, code, final) => {
  const error = commandFailure(new CommandError("local", "mount", failure, "why"), "mounting /a");
  expect(error).toBeInstanceOf(CsiError);
  expect(error).toMatchObject({ code });
  expect((error as CsiError).message).toStartWith("mounting /a: mount: why (local); ");
  expect(isFinal(error)).toBe(final);
});

test("any other error stays unchanged", () => {
  const error = new Error("other");
  expect(commandFailure(error, "mounting /a")).toBe(error);
});

import { expect, test } from "bun:test";
import { CsiError, isFinal } from "../../lib/core/errors.ts";
import { commandFailure } from "../../lib/io/commands.ts";
import { CommandError, type CommandFailure } from "../../lib/io/runner.ts";

test.each<[CommandFailure, string, boolean]>([
  ["missing", "failed-precondition", true],
  ["denied", "failed-precondition", true],
  ["timeout", "deadline-exceeded", false],
  ["cancelled", "unavailable", false],
  ["killed", "unavailable", false],
  ["spawn", "unavailable", false],
  ["overflow", "unavailable", false],
  ["unreachable", "unavailable", false],
  ["lost", "unavailable", false],
])("a command that is %s answers %s", (failure, code, final) => {
  const error = commandFailure(new CommandError("local", "mount", failure, "why"), "mounting /a");
  expect(error).toBeInstanceOf(CsiError);
  expect(error).toMatchObject({ code });
  expect((error as CsiError).message).toStartWith("mounting /a: mount: why (local); ");
  expect(isFinal(error)).toBe(final);
});

test("anything else passes through", () => {
  const error = new Error("other");
  expect(commandFailure(error, "mounting /a")).toBe(error);
});

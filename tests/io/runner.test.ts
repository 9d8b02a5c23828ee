import { expect, test } from "bun:test";
import { CsiError, isFinal } from "../../lib/core/errors.ts";
import { CommandError, type CommandFailure, commandFailure, complaint } from "../../lib/io/runner.ts";

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

test.each([
  [
    "Filesystem must be larger than 300MB.\nUsage: mkfs.xfs\n/* blocksize */ [-b size=num]\n",
    "Filesystem must be larger than 300MB.",
  ],
  ["usage: tool [-a]\n       tool -b\n", "tool -b"],
  ["mkfs: warning\nmkfs: no space\n", "mkfs: no space"],
  ["", "said on stdout"],
])("of the error output %j, messages have the reason", (stderr, reason) => {
  expect(complaint({ stderr, stdout: "said on stdout", exitCode: 1 })).toBe(reason);
});

test("any other error stays unchanged", () => {
  const error = new Error("other");
  expect(commandFailure(error, "mounting /a")).toBe(error);
});

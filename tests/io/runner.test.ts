import { expect, test } from "bun:test";
import { CsiError, isFinal } from "../../lib/core/errors.ts";
import {
  type Command,
  CommandError,
  type CommandFailure,
  type CommandRunner,
  commandFailure,
  hostRunner,
} from "../../lib/io/runner.ts";

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

test("a program of the host gets its variables in its environment, not in chroot's arguments, which every user can read", async () => {
  const seen: Command[] = [];
  const runner: CommandRunner = {
    where: "local",
    async run(command) {
      seen.push(command);
      return { stdout: "", stderr: "", exitCode: 0 };
    },
  };
  const env = { SECRET_KEY: "s3cr3t" };
  await hostRunner(runner, "/host").run({ argv: ["mount.objectivefs", "a", "/b"], env }, new AbortController().signal);
  expect(seen.map(({ argv }) => argv.join(" "))).toEqual([
    expect.stringMatching(/^chroot \/host env PATH=\S+ mount\.objectivefs a \/b$/),
  ]);
  expect(seen[0]?.env).toEqual(env);
});

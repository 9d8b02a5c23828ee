import { expect, test } from "bun:test";
import { hostRunner } from "../../lib/io/host.ts";
import type { Command, CommandRunner } from "../../lib/io/runner.ts";

test("a program of the host gets its environment as such, not among the arguments of chroot, where every user can read it", async () => {
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

import { expect, test } from "bun:test";
import type { CommandEnd } from "../../lib/core/observer.ts";
import { localRunner } from "../../lib/io/local.ts";
import { measured, programOf } from "../../lib/io/measured.ts";

test.each([
  [["/sbin/zfs", "list"], "zfs"],
  [["sudo", "-n", "--", "/sbin/zfs", "list"], "zfs"],
  [["chroot", "/host", "iscsiadm", "-m", "node"], "iscsiadm"],
  [["chroot", "/host", "env", "LC_ALL=C", "iscsiadm"], "iscsiadm"],
  [["env", "A=b", "mount", "-t", "nfs"], "mount"],
  [["sudo"], "sudo"],
] as const)("%j is about %s", (argv, program) => {
  expect(programOf(argv)).toBe(program);
});

test("each command is reported with its outcome and returns its own result", async () => {
  const told: CommandEnd[] = [];
  const env = { PATH: process.env["PATH"] ?? "" };
  const runner = measured(localRunner({ env }), end => void told.push(end));
  const { signal } = new AbortController();
  expect((await runner.run({ argv: ["echo", "here"] }, signal)).stdout).toBe("here\n");
  expect((await runner.run({ argv: ["false"] }, signal)).exitCode).toBe(1);
  await expect(runner.run({ argv: ["/nowhere/at-all"] }, signal)).rejects.toThrow("no such program");
  expect(told.map(({ where, program, outcome }) => [where, program, outcome])).toEqual([
    ["local", "echo", "ok"],
    ["local", "false", "exit"],
    ["local", "at-all", "missing"],
  ]);
  expect(told.every(({ seconds }) => seconds > 0 && seconds < 60)).toBe(true);
  expect(runner.hold).toBeDefined();
});

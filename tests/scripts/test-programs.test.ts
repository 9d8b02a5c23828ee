import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { countSkipped } from "../../scripts/bun-test.ts";
import { installMissing, missingPackages, onPath } from "../../scripts/packages.ts";
import { root } from "../../scripts/spawned.ts";
import { filesWithout, testPackages, testPrograms } from "../../scripts/test-programs.ts";

test("a machine that has every program runs every file, and one without ssh-keygen none of those that log in", () => {
  expect(filesWithout(() => true)).toEqual([]);
  expect(filesWithout(program => program !== "ssh-keygen")).toContain("tests/io/ssh/faults.test.ts");
  const all = filesWithout(() => false);
  expect(new Set(all).size).toBe(all.length);
});

test("every file that the table of programs names is there", () => {
  const named = Object.values(testPrograms).flatMap(({ files = [], cases = [] }) => [...files, ...cases]);
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter(file => !existsSync(join(root, file)))).toEqual([]);
});

test("tests of a file that cannot run count as skipped, each of them, and none of them runs", async () => {
  expect(await countSkipped(["tests/core/handle.test.ts"])).toMatchObject({ passed: 0, failed: 0 });
  expect((await countSkipped(["tests/core/handle.test.ts"])).skipped).toBeGreaterThan(2);
});

test("where there is no apt, nothing is installed and nothing fails; the packages that are missing have a name each", async () => {
  const path = process.env["PATH"];
  process.env["PATH"] = "/nonexistent";
  try {
    expect(onPath("sh")).toBe(false);
    await installMissing(testPackages);
    expect(missingPackages({ sshd: "openssh-server", ssh: "openssh-client", "ssh-keygen": "openssh-client" })).toEqual([
      "openssh-server",
      "openssh-client",
    ]);
  } finally {
    process.env["PATH"] = path;
  }
});

import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { countSkipped } from "../../scripts/bun-test.ts";
import { installMissing, missingPackages, onPath } from "../../scripts/packages.ts";
import { root } from "../../scripts/spawned.ts";
import { filesWithout, testPackages, testPrograms } from "../../scripts/test-programs.ts";
import { isHostRoot } from "../root.ts";

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

/** Programs that record their arguments, as the only ones on PATH except a shell. */
async function withFakes(
  codes: Readonly<Record<string, number>>,
  work: () => Promise<void>,
): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), "csimux-apt-"));
  const path = process.env["PATH"];
  try {
    for (const [name, code] of Object.entries(codes))
      await writeFile(
        join(folder, name),
        `#!/bin/sh\necho "${name} $*" >> ${folder}/calls\necho "E: no such package" >&2\nexit ${code}\n`,
        { mode: 0o755 },
      );
    process.env["PATH"] = folder;
    await work();
    return (await readFile(join(folder, "calls"), "utf8").catch(() => "")).split("\n").filter(Boolean);
  } finally {
    process.env["PATH"] = path;
    await rm(folder, { recursive: true, force: true });
  }
}

const mayInstall = isHostRoot && existsSync("/var/lib/dpkg");
const wanted = { sshd: "openssh-server", rsync: "rsync" };

test.skipIf(!mayInstall)(
  "root with apt installs what is missing, and no service that comes along stays on",
  async () => {
    expect(await withFakes({ "apt-get": 0, systemctl: 1 }, () => installMissing(wanted))).toEqual([
      "apt-get update -qq",
      "apt-get install -y -qq --no-install-recommends openssh-server rsync",
      "systemctl disable --now ssh.service",
      "systemctl disable --now ssh.socket",
    ]);
  },
);

test.skipIf(!mayInstall)("nothing is installed where nothing is missing, or where apt does not answer", async () => {
  expect(await withFakes({ "apt-get": 0, sshd: 0, rsync: 0 }, () => installMissing(wanted))).toEqual([]);
  expect(await withFakes({ "apt-get": 100 }, () => installMissing(wanted))).toEqual(["apt-get update -qq"]);
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

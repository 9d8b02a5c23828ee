import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { quoted } from "../../lib/io/script.ts";
import { labTests } from "../../scripts/lab/equipment.ts";
import { withLock } from "../../scripts/lab/lock.ts";
import { root, spawned, tool } from "../../scripts/spawned.ts";
import { passing } from "../waiting.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-lab-scripts-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** The lab's command with a separate cache and, optionally, an empty PATH. */
const lab = (path: string | undefined, ...args: readonly string[]) =>
  spawned([tool("bun"), `${root}/scripts/lab/main.ts`, ...args], {
    env: { XDG_CACHE_HOME: folder, ...(path === undefined ? {} : { PATH: path }) },
  });

test("a shell reads every quoted argument as it was", async () => {
  const hard = ["plain", "", "two words", "it's", '"$HOME"', "a;b|c&d", "line\nbreak", "*", "\\", "'"];
  const script = `printf '<%s>' ${hard.map(quoted).join(" ")}`;
  expect((await spawned(["sh", "-c", script])).stdout).toBe(hard.map(word => `<${word}>`).join(""));
});

test("a lock has one holder at a time, and is released when its work fails", async () => {
  const file = join(folder, "lock");
  const told: string[] = [];
  const work = (name: string) => async () => {
    told.push(`${name} begins`);
    // Long enough for the other one to begin, if nothing held it.
    await passing(50);
    told.push(`${name} ends`);
    throw new Error(name);
  };
  const ends = await Promise.allSettled([withLock(file, work("a")), withLock(file, work("b"))]);
  expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(told.map(line => line.split(" ")[1])).toEqual(["begins", "ends", "begins", "ends"]);
});

test("a machine without QEMU says so loudly, counts one skipped test and does not fail", async () => {
  const { code, stdout } = await lab(folder, "test");
  expect(stdout).toContain("THE LAB'S TESTS DID NOT RUN: missing Debian packages: qemu-system-x86");
  expect(stdout.trim().split("\n").at(-1)).toBe("0 passed, 0 failed, 1 skipped");
  expect(code).toBe(0);
});

test("a test that does not exist is refused with the names of those that do", async () => {
  const { code, stderr } = await lab(undefined, "test", "nothing");
  expect(code).toBe(1);
  for (const { name } of labTests()) expect(stderr).toContain(name);
});

test("a measurement of no operation is refused with the titles of those that exist", async () => {
  const argv = [tool("bun"), `${root}/scripts/bench-lab.ts`, "--guest", "1", "--only", "NFS"] as const;
  const { code, stderr } = await spawned(argv, { env: { XDG_CACHE_HOME: folder } });
  expect(code).toBe(1);
  expect(stderr).toContain('no operation has "NFS" in its title; there are: CreateVolume nfs, ');
});

test("a guest whose process id belongs to another program now is down", async () => {
  const guest = join(folder, "csimux-lab/guests/3");
  await mkdir(guest, { recursive: true });
  await writeFile(join(guest, "pid"), String(process.pid));
  expect((await lab(undefined, "status")).stdout).toContain("no guest is running");
  expect((await lab(undefined, "down", "--guest", "3")).stderr).toContain("guest 3 is not running");
});

test("tests of the lab are not among those that run on the host, and no two have one name", async () => {
  const tests = labTests();
  expect(tests.length).toBeGreaterThan(0);
  for (const { source } of tests) expect(source).not.toMatch(/[._](test|spec)\.ts$/);
  expect(new Set(tests.map(({ name }) => name)).size).toBe(tests.length);
});

import { afterEach, beforeEach, expect, test } from "bun:test";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConnectionFolder } from "../../lib/io/folder.ts";
import { isHostRoot } from "../root.ts";
import { pause } from "../waiting.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-folder-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const codeOf = (read: Promise<unknown>) =>
  read.then(
    () => "ok",
    (error: { code: string }) => error.code,
  );

test("a second file of a name is noticed although the first has long been read", async () => {
  const files = new ConnectionFolder(folder);
  // A file that was written long ago is not read again while it stays as it is.
  await symlink(import.meta.path, join(folder, "c.yaml"));
  for (let i = 0; i < 2; i++) expect(await files.read("c")).toContain("ConnectionFolder");
  await writeFile(join(folder, "c.yml"), "driver: b");
  expect(await codeOf(files.read("c"))).toBe("failed-precondition");
  await rm(join(folder, "c.yaml"));
  expect(await files.read("c")).toBe("driver: b");
});

test("an unreadable file is refused, and an unreadable folder fails differently", async () => {
  const files = new ConnectionFolder(folder);
  await mkdir(join(folder, "c.yaml"));
  expect(await codeOf(files.read("c"))).toBe("failed-precondition");
  execFileSync("mkfifo", [join(folder, "pipe.yaml")]);
  expect(await codeOf(files.read("pipe"))).toBe("failed-precondition");
  expect(await files.read("absent")).toBeUndefined();
  await rm(folder, { recursive: true });
  expect(await codeOf(files.read("c"))).toBe("unavailable");
});

test("a file that is repeatedly replaced by a pipe never blocks a reader", async () => {
  const files = new ConnectionFolder(folder);
  const path = join(folder, "flips.yaml");
  execFileSync("mkfifo", [join(folder, "pipe")]);
  await writeFile(join(folder, "good.yaml"), "driver: a");
  const script =
    'while :; do ln -f pipe flips.new; mv -f flips.new flips.yaml; echo "driver: b" > flips.new; mv -f flips.new flips.yaml; done';
  const flipper = spawn("sh", ["-c", script], { cwd: folder, stdio: "ignore" });
  try {
    while (!existsSync(path)) await pause(1);
    const answers = new Set<string | undefined>();
    // Long enough for the file to change many times after the first check.
    let changes = 0;
    for (let last: string | undefined; changes < 100; )
      for (const answer of await Promise.all([1, 2, 3, 4].map(() => files.read("flips").catch(() => "refused")))) {
        answers.add(answer?.trim());
        if (answer !== last) changes++;
        last = answer;
      }
    expect([...answers].filter(each => each !== undefined && each !== "").sort()).toEqual(["driver: b", "refused"]);
    expect(await files.read("good")).toBe("driver: a");
  } finally {
    flipper.kill("SIGKILL");
    await once(flipper, "exit");
  }
}, 60_000);

test.skipIf(!isHostRoot)(
  "a link to the kernel's log, whose reader waits for the next line, cannot be read",
  async () => {
    const files = new ConnectionFolder(folder);
    await symlink("/proc/kmsg", join(folder, "log.yaml"));
    for (let i = 0; i < 20; i++) {
      const answer = await files.read("log").catch((error: { code: string }) => error.code);
      // Existing lines are read, and are not a connection.
      expect(answer === "failed-precondition" || answer?.startsWith("<")).toBe(true);
    }
  },
);

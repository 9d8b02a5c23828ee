import { afterEach, beforeEach, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConnectionFolder } from "../../lib/io/folder.ts";

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

test("what is no readable file is refused, and an unreadable folder is another thing", async () => {
  const files = new ConnectionFolder(folder);
  await mkdir(join(folder, "c.yaml"));
  expect(await codeOf(files.read("c"))).toBe("failed-precondition");
  execFileSync("mkfifo", [join(folder, "pipe.yaml")]);
  expect(await codeOf(files.read("pipe"))).toBe("failed-precondition");
  expect(await files.read("absent")).toBeUndefined();
  await rm(folder, { recursive: true });
  expect(await codeOf(files.read("c"))).toBe("unavailable");
});

import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { localFiles } from "../../lib/io/files.ts";
import { localRunner } from "../../lib/io/local.ts";
import { Power } from "./power.ts";

let folder: string;
let power: Power;
const at = (name: string): string => join(folder, name);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-power-test-"));
  power = await Power.on();
});
afterEach(async () => {
  await power.close();
  await rm(folder, { recursive: true, force: true });
});

test("a rename that replaced a file and was not synced gives both files back", async () => {
  await writeFile(at("a"), "old");
  await writeFile(at("a.new"), "new");
  await power.files(localFiles).rename(at("a.new"), at("a"));
  expect(await readFile(at("a"), "utf8")).toBe("new");
  await power.lose();
  expect(await readFile(at("a"), "utf8")).toBe("old");
  expect(await readFile(at("a.new"), "utf8")).toBe("new");
});

test("a copy that was not synced loses the content of its own files, not of files that its links lead to", async () => {
  await mkdir(at("from"));
  await writeFile(at("from/file"), "content");
  await symlink(folder, at("from/link"));
  await writeFile(at("outside"), "kept");
  const runner = power.runner(localRunner({ env: { PATH: "/usr/bin:/bin" } }), folder);
  const copied = await runner.run({ argv: ["cp", "-a", at("from"), at("to")] }, AbortSignal.timeout(10_000));
  expect(copied.exitCode).toBe(0);
  await power.lose();
  expect(await readFile(at("to/file"), "utf8")).toBe("");
  expect(await readFile(at("outside"), "utf8")).toBe("kept");
});

test("a sync takes along the names of its own folder, and with one journal all earlier ones", async () => {
  for (const scope of ["folder", "journal"] as const) {
    const disk = await Power.on(scope);
    const files = disk.files(localFiles);
    for (const name of ["a", "a/b", "a/b/c"]) await files.makeFolder(at(name), 0o755);
    await files.sync(at("a"));
    await files.makeFolder(at("a/later"), 0o755);
    await files.sync(folder);
    await disk.lose();
    const found = (await readdir(at("a/b"))).concat(await readdir(at("a")));
    expect([scope, ...found.sort()]).toEqual(scope === "folder" ? [scope, "b"] : [scope, "b", "c", "later"]);
    await rm(at("a"), { recursive: true });
    await disk.close();
  }
});

test("what was made in a folder that got another name since is lost there", async () => {
  const files = power.files(localFiles);
  await mkdir(at("new"));
  await files.makeFolder(at("new/data"), 0o755);
  await files.rename(at("new"), at("volume"));
  await files.sync(folder);
  await power.lose();
  expect([await readdir(folder), await readdir(at("volume"))]).toEqual([["volume"], []]);
});

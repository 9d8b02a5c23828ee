import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
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

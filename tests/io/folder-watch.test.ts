import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConnectionFolder } from "../../lib/io/folder.ts";
import { FolderWatch } from "../../lib/io/folder-watch.ts";
import { passing, pause } from "../waiting.ts";

let parent: string;
let folder: string;
let watch: FolderWatch | undefined;
let seen: string[];
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), "csimux-watch-"));
  folder = join(parent, "connections");
  await mkdir(folder);
  seen = [];
});
afterEach(async () => {
  watch?.stop();
  await rm(parent, { recursive: true, force: true });
});

/** Watches the folder; each check adds the content of the file "c". The slow check runs only when a test requests it. */
function started(times: { slow?: number; absent?: number } = {}): void {
  const files = new ConnectionFolder(folder);
  const look = async () => void seen.push((await files.read("c").catch(() => "no folder")) ?? "none");
  watch = new FolderWatch(files, look, { settle: 20, slow: 3_600_000, absent: 20, ...times });
  watch.start();
}

/** Waits until the latest check has found this. */
async function found(text: string): Promise<void> {
  const until = Date.now() + 30_000;
  while (seen.at(-1) !== text) {
    if (Date.now() > until) throw new Error(`"${text}" was not found: ${seen.join(", ")}`);
    await pause(2);
  }
}

/** As kubelet updates a Secret volume: a new folder, and a link that is exchanged by a rename. */
async function publish(generation: string): Promise<void> {
  await mkdir(join(folder, `..${generation}`));
  await writeFile(join(folder, `..${generation}`, "c.yaml"), generation);
  await symlink(`..${generation}`, join(folder, "..data_tmp"));
  await rename(join(folder, "..data_tmp"), join(folder, "..data"));
}

test("a check runs at the start and after each replacement of a Secret", async () => {
  await publish("a");
  await symlink("..data/c.yaml", join(folder, "c.yaml"));
  started();
  await found("a");
  for (const generation of ["b", "c", "d"]) {
    await publish(generation);
    await found(generation);
  }
});

test("files that are added, changed and removed are checked soon", async () => {
  started();
  await found("none");
  await writeFile(join(folder, "c.yaml"), "one");
  await found("one");
  await writeFile(join(folder, "c.yaml"), "two, longer");
  await found("two, longer");
  await rm(join(folder, "c.yaml"));
  await found("none");
});

test("a folder that appears later, disappears and is replaced is followed", async () => {
  await rm(folder, { recursive: true });
  started({ slow: 50 });
  await found("no folder");
  for (const text of ["one", "two"]) {
    await mkdir(folder);
    await writeFile(join(folder, "c.yaml"), text);
    await found(text);
    await rm(folder, { recursive: true });
    await found("no folder");
  }
});

test("nothing is checked while nothing changes", async () => {
  started();
  await found("none");
  const turns = seen.length;
  await writeFile(join(parent, "elsewhere"), "");
  // A change is checked after 20 ms.
  await passing(100);
  expect(seen.length).toBe(turns);
});

test("a change without an event is found by the slow check", async () => {
  await symlink("../elsewhere/c.yaml", join(folder, "c.yaml"));
  started({ slow: 20 });
  await found("none");
  await mkdir(join(parent, "elsewhere"));
  await writeFile(join(parent, "elsewhere", "c.yaml"), "behind a link");
  await found("behind a link");
});

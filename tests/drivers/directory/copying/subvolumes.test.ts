import { afterEach, beforeEach, expect, test } from "bun:test";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { copyFiles } from "../../../../lib/copies/rsync/rsync.ts";
import { FileListings } from "../../../../lib/copies/rsync/unchanged-files.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { hasLoops } from "../../../node/disks/disk.ts";
import { hasRestic, resticRepository } from "../backup-rig.ts";
import { openOn, systemRunner } from "../directory-rig.ts";

// Every user of btrfs may make subvolumes in folders of his own. Such a subvolume has another device number, like a mount.

const canTry = hasLoops && spawnSync("mkfs.btrfs", ["--version"]).status === 0;
const call = callWith();
let folder = "";
let base = "";
beforeEach(async () => {
  if (!canTry) return;
  folder = await mkdtemp(join(tmpdir(), "csimux-subvolumes-"));
  base = join(folder, "base");
  await mkdir(base);
  await writeFile(join(folder, "disk"), "");
  await truncate(join(folder, "disk"), 300 << 20);
  execFileSync("mkfs.btrfs", ["-q", join(folder, "disk")], { stdio: "ignore" });
  execFileSync("mount", ["-o", "loop", join(folder, "disk"), base]);
  await openOn(base).create(volumeOf("a"), call);
  execFileSync("btrfs", ["subvolume", "create", join(base, "v", "a", "sub")], { stdio: "ignore" });
  await writeFile(join(base, "v", "a", "sub", "file"), "content");
});
afterEach(async () => {
  if (!canTry) return;
  execFileSync("umount", [base]);
  await rm(folder, { recursive: true, force: true });
});

const copied = (at: string) => readFile(join(at, "sub", "file"), "utf8").catch(() => "missing");

test.skipIf(!canTry)("a copy by files has what is in a subvolume of the source", async () => {
  const to = join(base, "to");
  await mkdir(to);
  const tree = { path: join(base, "v", "a"), runner: systemRunner };
  await copyFiles({ tree, folder: to, stable: true, progress: () => {} }, call);
  expect(await copied(to)).toBe("content");
});

test.skipIf(!canTry)("a later pass of a copy compares what has changed in a subvolume", async () => {
  const to = join(base, "to");
  await mkdir(to);
  const tree = { path: join(base, "v", "a"), runner: systemRunner };
  const listings = new FileListings(0);
  const first = listings.take("target", { pass: 0, heartbeat: 0 } as Parameters<FileListings["take"]>[1]);
  await first.compared(tree, to, call);
  listings.keep("target", { pass: 0, heartbeat: 0 } as Parameters<FileListings["keep"]>[1], first);
  await writeFile(join(base, "v", "a", "sub", "file"), "changed");
  const second = listings.take("target", { pass: 1, heartbeat: 0 } as Parameters<FileListings["take"]>[1]);
  expect(await second.compared(tree, to, call)).toEqual(["sub/file"]);
});

test.skipIf(!canTry || !hasRestic)("a snapshot by restic has what is in a subvolume of its volume", async () => {
  const repository = await resticRepository();
  const driver = openOn(base, { runner: repository.runner, settings: repository.settings });
  const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
  await driver.create(volumeOf("b", gib, { kind: "snapshot", id }), call);
  await rm(repository.folder, { recursive: true, force: true });
  expect(await copied(join(base, "v", "b"))).toBe("content");
});

import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, rm, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { localFiles } from "../../../lib/io/files.ts";
import { callWith, reasonsOf, volumeOf } from "../../contract/rig.ts";
import { isHostRoot } from "../../root.ts";
import { openOn, systemRunner, temporaryFolder } from "./directory-rig.ts";

const call = callWith();
const calm = new AbortController().signal;
let base: string;
let driver: Driver;
beforeEach(async () => {
  base = await temporaryFolder();
  driver = openOn(base);
});
afterEach(async () => {
  await systemRunner.run({ argv: ["umount", "-l", base] }, calm);
  await rm(base, { recursive: true, force: true });
});

const look = (of: Driver = driver) => reasonsOf(of);

const run = async (...argv: readonly [string, ...string[]]): Promise<void> => {
  const { exitCode, stderr } = await systemRunner.run({ argv }, calm);
  if (exitCode !== 0) throw new Error(stderr);
};

test("a volume whose folder was removed by hand is missing until the folder is back or the volume deleted", async () => {
  const made = [];
  for (const name of ["pvc-1", "pvc-2", "pvc-3"]) made.push(await driver.create(volumeOf(name), call));
  expect(await look()).toEqual({});
  const [a, b] = made.map(({ id }) => id);
  for (const id of [a, b]) await rm(join(base, "v", id ?? ""), { recursive: true });
  expect(await look()).toEqual({ [a ?? ""]: ["VolumeMissing"], [b ?? ""]: ["VolumeMissing"] });
  await mkdir(join(base, "v", a ?? ""));
  await driver.delete(b ?? "", call);
  expect(await look()).toEqual({});
  expect((await driver.health?.look(call))?.example).toMatchObject({ node_attach_driver: "hostpath" });
});

test("a volume that is being created or removed is not missing", async () => {
  const { id } = await driver.create(volumeOf("pvc-1"), call);
  await mkdir(join(base, ".csimux", "work"), { recursive: true });
  await run("mv", join(base, "v", id), join(base, ".csimux", "work", `v~${id}~0123456789ab`));
  expect(await look()).toEqual({});
});

test("a snapshot whose copy was removed by hand is reported until it is deleted", async () => {
  const { id } = await driver.create(volumeOf("pvc-1"), call);
  const snapshot = await driver.snapshots?.create("snap", id, {}, call);
  expect(await look()).toEqual({});
  await rm(join(base, "s", "_snap"), { recursive: true });
  expect(await look()).toEqual({ [id]: ["SnapshotLost"] });
  await driver.snapshots?.delete(snapshot?.id ?? "", call);
  expect(await look()).toEqual({});
});

test.skipIf(!isHostRoot)("a read-only or full file system of the base folder is reported", async () => {
  await run("mount", "-t", "tmpfs", "-o", "size=64k", "health", base);
  expect(await look()).toEqual({});
  await writeFile(join(base, "big"), Buffer.alloc(64 << 10));
  expect(await look()).toEqual({ storage: ["StorageFull"] });
  await unlink(join(base, "big"));
  expect(await look()).toEqual({});
  await run("mount", "-o", "remount,ro", base);
  expect(await look()).toEqual({ storage: ["StorageReadOnly"] });
  await run("mount", "-o", "remount,rw", base);
  expect(await look()).toEqual({});
});

test("checking a missing base folder fails", async () => {
  await rm(base, { recursive: true });
  await expect(driver.health?.look(call)).rejects.toMatchObject({ code: "unavailable" });
});

test("a check takes as many calls for a thousand volumes as for one", async () => {
  const count = async () => {
    let steps = 0;
    const verbs = Object.entries(localFiles as unknown as Record<string, (...args: unknown[]) => unknown>);
    const counted = verbs.map(([name, verb]) => [
      name,
      (...args: unknown[]) => {
        steps++;
        return verb(...args);
      },
    ]);
    await look(openOn(base, { files: Object.fromEntries(counted) }));
    return steps;
  };
  await driver.create(volumeOf("pvc-0"), call);
  const one = await count();
  for (let n = 1; n < 1000; n++) {
    await mkdir(join(base, "v", `pvc-${n}`));
    await writeFile(join(base, ".csimux", `v.pvc-${n}.json`), "{}");
  }
  expect(await count()).toBe(one);
});

import { afterAll, beforeAll, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connectionFile } from "../../../scripts/sandbox.ts";
import { codeOf, leftBelow, status, untilDone, World } from "../world.ts";

let world: World;
beforeAll(async () => {
  world = await World.start();
});
afterAll(async () => {
  expect(await world.end()).toEqual([]);
});

const fifty = Array.from({ length: 50 }, (_, i) => i);
const files = 40;

/** Puts content into a volume's folder, so that copying it is slow and complete copies differ from partial ones. */
async function fill(volume: string): Promise<void> {
  const folder = join(world.base("one"), "v", volume);
  for (let i = 0; i < files; i++) await writeFile(join(folder, `file-${i}`), `${volume} ${i} `.repeat(2000));
}

async function isWhole(folder: string, volume: string): Promise<boolean> {
  const names = await readdir(folder);
  if (names.length !== files) return false;
  const texts = await Promise.all(names.map(name => readFile(join(folder, name), "utf8")));
  return texts.every((text, i) => text === `${volume} ${names[i]?.slice(5)} `.repeat(2000));
}

/** Ends csimux in the middle of calls, once some of them have been answered. */
async function interrupt(
  signal: "SIGTERM" | "SIGKILL",
  calls: readonly Promise<unknown>[],
  after: number,
): Promise<void> {
  let answered = 0;
  const enough = Promise.withResolvers<void>();
  for (const call of calls) {
    call.then(() => ++answered === after && enough.resolve()).catch(() => enough.resolve());
  }
  await enough.promise;
  process.kill(world.daemon.pid, signal);
  await Promise.allSettled(calls);
  await world.daemon.stop();
  await world.restart();
}

const volumesNow = async () =>
  (await untilDone(() => world.controller("listVolumes", {}))).entries.map(entry => entry.volume?.volumeId ?? "");
const snapshotsNow = async () =>
  (await untilDone(() => world.controller("listSnapshots", {}))).entries.map(entry => entry.snapshot?.snapshotId ?? "");

async function clear(): Promise<void> {
  for (const volumeId of await volumesNow()) await untilDone(() => world.controller("deleteVolume", { volumeId }));
  for (const snapshotId of await snapshotsNow())
    await untilDone(() => world.controller("deleteSnapshot", { snapshotId }));
  expect([await world.stored("one"), await world.stored("two")]).toEqual([[], []]);
}

for (const signal of ["SIGTERM", "SIGKILL"] as const) {
  test(`${signal} in the middle of 50 creates: repeated, each exists exactly once`, async () => {
    const create = (i: number) => world.create(`pvc-${i}`, i % 2 === 0 ? "one" : "two");
    await interrupt(signal, fifty.map(create), 5);
    await Promise.all(fifty.map(i => untilDone(() => create(i))));
    expect((await volumesNow()).length).toBe(50);
    expect(new Set(await volumesNow()).size).toBe(50);
    await clear();
  }, 60_000);

  test(`${signal} in the middle of 50 snapshots and clones: none half-made is reported done, nothing is left over`, async () => {
    await world.create("pvc-src");
    await fill("pvc-src");
    const sourceVolumeId = "v:one/pvc-src";
    const volumeContentSource = { type: { case: "volume" as const, value: { volumeId: sourceVolumeId } } };
    const jobs = fifty
      .slice(0, 25)
      .flatMap(i => [
        () => world.controller("createSnapshot", { sourceVolumeId, name: `snap-${i}` }),
        () => world.create(`clone-${i}`, "one", { volumeContentSource }),
      ]);
    await interrupt(
      signal,
      jobs.map(job => job()),
      4,
    );
    for (const id of await volumesNow())
      expect(await isWhole(join(world.base("one"), "v", id.slice(6)), "pvc-src")).toBe(true);
    await Promise.all(jobs.map(job => untilDone<unknown>(job)));
    expect((await volumesNow()).length).toBe(26);
    expect((await snapshotsNow()).length).toBe(25);
    for (const folder of await trees()) expect(await isWhole(folder, "pvc-src")).toBe(true);
    await clear();
  }, 120_000);
}

async function trees(): Promise<readonly string[]> {
  const base = world.base("one");
  const lists = await Promise.all(
    ["v", "s"].map(async kind => (await readdir(join(base, kind))).map(name => join(base, kind, name))),
  );
  return lists.flat();
}

test("a missing tool is FAILED_PRECONDITION and names it; everything else still works", async () => {
  const bare = await World.start("off", ["one"], async sandbox => void (await mkdir(join(sandbox.folder, "no-tools"))));
  await bare.daemon.stop();
  const { startDaemon } = await import("../../../scripts/daemon.ts");
  const { build } = await import("../../../scripts/build.ts");
  bare.daemon = await startDaemon({
    command: [await build()],
    sandbox: bare.sandbox,
    env: { PATH: join(bare.sandbox.folder, "no-tools") },
  });
  await bare.create("pvc-1");
  const clone = bare.create("pvc-2", "one", {
    volumeContentSource: { type: { case: "volume", value: { volumeId: "v:one/pvc-1" } } },
  });
  const error = await clone.then(
    () => ({ code: 0, details: "" }),
    (failure: { code: number; details: string }) => failure,
  );
  expect(error.code).toBe(status.failedPrecondition);
  expect(error.details).toMatch(/\bunshare\b/);
  expect((await bare.probe()).ready).toBe(true);
  await bare.controller("deleteVolume", { volumeId: "v:one/pvc-1" });
  expect(await bare.stored("one")).toEqual([]);
  await bare.end();
}, 60_000);

test.skipIf(process.getuid?.() !== 0)(
  "a full disk is RESOURCE_EXHAUSTED, leaves nothing half-made, and can be freed",
  async () => {
    const disk = join(world.sandbox.folder, "disk");
    await mkdir(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=3m", "tmpfs", disk]);
    try {
      await writeFile(join(world.sandbox.connections, "small.yaml"), connectionFile(disk, "off"));
      await world.create("pvc-1", "small");
      await writeFile(join(disk, "v", "pvc-1", "data"), Buffer.alloc(2 << 20, 1));
      const volumeContentSource = { type: { case: "volume" as const, value: { volumeId: "v:small/pvc-1" } } };
      const clone = () => codeOf(world.create("pvc-2", "small", { volumeContentSource }));
      expect(await clone()).toBe(status.resourceExhausted);
      expect(await readdir(join(disk, "v"))).toEqual(["pvc-1"]);
      await writeFile(join(disk, "v", "pvc-1", "data"), "small now");
      expect(await clone()).toBe("ok");
      for (const id of ["pvc-1", "pvc-2"]) await world.controller("deleteVolume", { volumeId: `v:small/${id}` });
      expect(await leftBelow(disk)).toEqual([]);
    } finally {
      execFileSync("umount", [disk]);
    }
  },
  60_000,
);

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { mountCapability } from "../../scripts/client.ts";
import { mebibytes, World } from "./world.ts";

let world: World;
beforeAll(async () => {
  world = await World.start();
});
afterAll(async () => {
  expect(await world.end()).toEqual([]);
});

/** Mounts a volume as kubelet does, hands the folder to `work`, and takes it down again. */
async function mounted(
  volume: { volumeId: string; volumeContext: Record<string, string> },
  work: (folder: string) => Promise<void>,
) {
  const key = volume.volumeId.replaceAll(/[^a-z0-9]/gi, "_");
  const stagingTargetPath = join(world.sandbox.folder, `staging-${key}`);
  const targetPath = join(world.sandbox.folder, "pods", key, "mount");
  await mkdir(stagingTargetPath, { recursive: true });
  const common = {
    volumeId: volume.volumeId,
    volumeCapability: mountCapability,
    volumeContext: volume.volumeContext,
    stagingTargetPath,
  };
  await world.node("nodeStageVolume", common);
  await world.node("nodePublishVolume", { ...common, targetPath });
  try {
    await work(targetPath);
    const { usage } = await world.node("nodeGetVolumeStats", { volumeId: volume.volumeId, volumePath: targetPath });
    expect(usage[0]?.total).toBeGreaterThan(0n);
  } finally {
    await world.node("nodeUnpublishVolume", { volumeId: volume.volumeId, targetPath });
    await world.node("nodeUnstageVolume", { volumeId: volume.volumeId, stagingTargetPath });
  }
  expect(await stat(targetPath).catch(() => "gone")).toBe("gone");
}

test("a volume lives its life: made, mounted, written, snapshotted, restored, cloned, grown, listed, deleted", async () => {
  const made = (await world.create("pvc-1")).volume;
  if (!made) throw new Error("no volume");
  expect(made.volumeId).toBe("v:one/pvc-1");
  await mounted(made, folder => writeFile(join(folder, "hello"), "data of the first volume"));

  const { snapshot } = await world.controller("createSnapshot", { sourceVolumeId: made.volumeId, name: "snap-1" });
  expect(snapshot).toMatchObject({ sourceVolumeId: made.volumeId, readyToUse: true });
  const snapshotId = snapshot?.snapshotId ?? "";
  await mounted(made, folder => writeFile(join(folder, "hello"), "overwritten later"));

  const fromSnapshot = { type: { case: "snapshot" as const, value: { snapshotId } } };
  const restored = (await world.create("pvc-2", "one", { volumeContentSource: fromSnapshot })).volume;
  if (!restored) throw new Error("no volume");
  expect(restored.contentSource?.type).toMatchObject({ case: "snapshot", value: { snapshotId } });
  await mounted(restored, async folder =>
    expect(await readFile(join(folder, "hello"), "utf8")).toBe("data of the first volume"),
  );

  const fromVolume = { type: { case: "volume" as const, value: { volumeId: made.volumeId } } };
  const clone = (await world.create("pvc-3", "one", { volumeContentSource: fromVolume })).volume;
  if (!clone) throw new Error("no volume");
  await mounted(clone, async folder => expect(await readFile(join(folder, "hello"), "utf8")).toBe("overwritten later"));

  const grown = await world.controller("controllerExpandVolume", {
    volumeId: clone.volumeId,
    capacityRange: mebibytes(5),
  });
  expect(grown).toMatchObject({ capacityBytes: 5n << 20n, nodeExpansionRequired: false });
  expect((await world.controller("controllerGetVolume", { volumeId: clone.volumeId })).volume?.capacityBytes).toBe(
    5n << 20n,
  );

  await world.create("pvc-9", "two");
  const ids = async () => (await world.controller("listVolumes", {})).entries.map(entry => entry.volume?.volumeId);
  expect(await ids()).toEqual(["v:one/pvc-1", "v:one/pvc-2", "v:one/pvc-3", "v:two/pvc-9"]);
  const { entries } = await world.controller("listSnapshots", { sourceVolumeId: made.volumeId });
  expect(entries.map(entry => entry.snapshot?.snapshotId)).toEqual([snapshotId]);

  for (const volumeId of (await ids()).reverse()) await world.controller("deleteVolume", { volumeId: volumeId ?? "" });
  await world.controller("deleteSnapshot", { snapshotId });
  expect(await ids()).toEqual([]);
  expect([await world.stored("one"), await world.stored("two")]).toEqual([[], []]);
});

test("a volume published read-only cannot be written, and repeated calls change nothing", async () => {
  const { volume } = await world.create("pvc-ro");
  if (!volume) throw new Error("no volume");
  const stagingTargetPath = join(world.sandbox.folder, "staging-ro");
  const targetPath = join(world.sandbox.folder, "pods/ro/mount");
  await mkdir(stagingTargetPath, { recursive: true });
  const common = {
    volumeId: volume.volumeId,
    volumeCapability: mountCapability,
    volumeContext: volume.volumeContext,
    stagingTargetPath,
  };
  for (let i = 0; i < 2; i++) await world.node("nodeStageVolume", common);
  for (let i = 0; i < 2; i++) await world.node("nodePublishVolume", { ...common, targetPath, readonly: true });
  const failure = await writeFile(join(targetPath, "x"), "").catch((error: { code: string }) => error.code);
  expect(failure).toBe("EROFS");
  for (let i = 0; i < 2; i++) await world.node("nodeUnpublishVolume", { volumeId: volume.volumeId, targetPath });
  for (let i = 0; i < 2; i++) await world.node("nodeUnstageVolume", { volumeId: volume.volumeId, stagingTargetPath });
  for (let i = 0; i < 2; i++) await world.controller("deleteVolume", { volumeId: volume.volumeId });
  expect(await world.stored("one")).toEqual([]);
});

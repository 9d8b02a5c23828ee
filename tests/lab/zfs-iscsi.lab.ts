import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { mebibytes, type World } from "../serve/world.ts";
import { type Made, startCsimux, whileMounted } from "./rig.ts";
import { run } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

// csimux on the storage host itself: zvols of pool `tank`, targets of the kernel through targetcli, and this machine as their initiator.

let before: ReadonlySet<string>;
let world: World;

const file = [
  "driver: zfs-generic-iscsi",
  "zfs:",
  "  datasetParentName: tank/iscsi/v",
  "  detachedSnapshotsDatasetParentName: tank/iscsi/s",
  "iscsi:",
  "  targetPortal: 127.0.0.1:3260",
  "  shareStrategy: targetCli",
  "  shareStrategyTargetCli:",
  "    basename: iqn.2025-01.lab.csimux:zfs",
  "    tpg:",
  "      attributes:",
  "        authentication: 0",
  "        generate_node_acls: 1",
  "        cache_dynamic_acls: 1",
  "        demo_mode_write_protect: 0",
  "    block:",
  "      attributes:",
  "        emulate_tpu: 1",
  "",
].join("\n");

beforeAll(async () => {
  before = await traces();
  world = await startCsimux({ connections: { disks: file } });
}, 120_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await run(["sh", "-c", "zfs destroy -r tank/iscsi 2>/dev/null || :"]);
  expect(await leftSince(before)).toEqual([]);
}, 120_000);

async function make(name: string, more: object = {}): Promise<Made> {
  const { volume } = await world.create(name, "disks", { capacityRange: mebibytes(64) as never, ...more }, 120_000);
  if (!volume) throw new Error("no volume");
  return volume;
}

test("a disk is made, used, cloned, grown and removed with its target", async () => {
  const volume = await make("pvc-1");
  expect(volume.volumeContext).toMatchObject({ iqn: "iqn.2025-01.lab.csimux:zfs:pvc-1", lun: "0" });
  await whileMounted(world, volume, async path => {
    await writeFile(join(path, "hello"), "on a disk");
    await run(["sync", "-f", path]);
  });
  const clone = await make("pvc-2", {
    volumeContentSource: { type: { case: "volume" as const, value: { volumeId: volume.volumeId } } },
    capacityRange: mebibytes(128),
  });
  await whileMounted(world, clone, async path => {
    expect(await readFile(join(path, "hello"), "utf8")).toBe("on a disk");
  });
  const grown = await world.controller(
    "controllerExpandVolume",
    { volumeId: volume.volumeId, capacityRange: mebibytes(128) },
    60_000,
  );
  expect(grown).toMatchObject({ capacityBytes: 128n << 20n, nodeExpansionRequired: true });
  for (const { volumeId } of [clone, volume]) await world.controller("deleteVolume", { volumeId }, 120_000);
  expect((await run(["zfs", "list", "-H", "-o", "name", "-r", "tank/iscsi/v"])).trim()).toBe("tank/iscsi/v");
}, 600_000);

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { World } from "../../serve/world.ts";
import { startCsimux } from "../rig.ts";
import { run, waitFor } from "../run.ts";
import { leftSince, traces } from "../traces.ts";
import { type Login, makeLogin } from "../zfs/ssh-login.ts";
import { zfsDrivers } from "../zfs/zfs-drivers.ts";
import { deleteVolume, makeVolume } from "../zfs/zfs-pool.ts";
import { failingDisk, looksAt, until } from "./health-looks.ts";

// The controller reports faults of real pools, shares and targets as soon as they exist, and no longer.

const limitMs = 600_000;
const used = ["nfs", "iscsi"];
const pool = "hq";

let before: ReadonlySet<string>;
let folder: string;
let login: Login;
let world: World;

const onPool = [
  "driver: zfs-local-dataset",
  "zfs:",
  `  datasetParentName: ${pool}/v`,
  `  detachedSnapshotsDatasetParentName: ${pool}/s`,
  "",
].join("\n");

beforeAll(async () => {
  before = await traces();
  folder = await mkdtemp("/srv/health-");
  login = await makeLogin();
  const files = zfsDrivers.flatMap(driver =>
    used.includes(driver.connection) ? [[driver.connection, driver.file(login)] as const] : [],
  );
  world = await startCsimux({
    connections: { ...Object.fromEntries(files), [pool]: onPool },
    flags: ["--health-interval=5"],
  });
}, limitMs);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await login.remove();
  for (const connection of used)
    await run(["sh", "-c", 'zfs destroy -r "$1" 2>/dev/null || :', "destroy", `tank/${connection}`]);
  await rm(folder, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
}, limitMs);

const { ofVolume } = looksAt(() => world);

test(
  "a dataset that its host has unmounted, or no longer shares, is reported for its volume",
  async () => {
    const { volumeId } = await makeVolume(world, "nfs", "pvc-1");
    const dataset = "tank/nfs/v/pvc-1";
    await until("a new volume", () => ofVolume(volumeId));
    await run(["zfs", "unmount", dataset]);
    await until("it is not mounted", () => ofVolume(volumeId), "DatasetNotMounted");
    await run(["zfs", "mount", dataset]);
    await until("it is mounted again", () => ofVolume(volumeId));
    const shared = (await run(["zfs", "get", "-H", "-o", "value", "sharenfs", dataset])).trim();
    await run(["zfs", "set", "sharenfs=off", dataset]);
    await until("it is not shared", () => ofVolume(volumeId), "ShareMissing");
    await run(["zfs", "set", `sharenfs=${shared}`, dataset]);
    await until("it is shared again", () => ofVolume(volumeId));
    await deleteVolume(world, volumeId);
  },
  limitMs,
);

test(
  "a target that its host has lost is reported for its volume until it is recreated",
  async () => {
    const { volumeId, volumeContext } = await makeVolume(world, "iscsi", "pvc-1");
    await until("a new volume", () => ofVolume(volumeId));
    await run(["targetcli", "/iscsi", "delete", volumeContext["iqn"] ?? ""]);
    await until("the target is gone", () => ofVolume(volumeId), "TargetMissing");
    await makeVolume(world, "iscsi", "pvc-1");
    await until("the target is back", () => ofVolume(volumeId));
    await deleteVolume(world, volumeId);
  },
  limitMs,
);

test(
  "a pool that has lost its only disk is faulted for all its volumes until the disk is back",
  async () => {
    const disk = await failingDisk("csimux-pool", join(folder, "disk"), 256);
    try {
      await run(["zpool", "create", "-f", "-m", "none", "-o", "failmode=continue", pool, disk.path]);
      const { volumeId } = await makeVolume(world, pool, "pvc-1");
      await until("a new volume", () => ofVolume(volumeId));
      const place = join(folder, "place");
      await mkdir(place);
      await run(["mount", "-t", "zfs", `${pool}/v/pvc-1`, place]);
      await disk.fail();
      // Writing to a suspended pool blocks until the pool is cleared.
      await run(["sh", "-c", `dd if=/dev/urandom of=${place}/big bs=1M count=8 </dev/null >/dev/null 2>&1 &`]);
      await until("the disk is gone", () => ofVolume(volumeId), "PoolFaulted");
      await disk.mend();
      await run(["zpool", "clear", pool]);
      await until("the disk is back", () => ofVolume(volumeId));
      await waitFor("the end of the writer", async () =>
        run(["umount", place]).then(
          () => true,
          () => undefined,
        ),
      );
      await deleteVolume(world, volumeId);
    } finally {
      await disk.mend().catch(() => {});
      const all = `zpool clear ${pool}; umount -f ${join(folder, "place")}; zpool destroy -f ${pool}`;
      await run(["sh", "-c", `(${all}) 2>/dev/null || :`]);
      await disk.remove();
    }
  },
  limitMs,
);

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { mountCapability } from "../../scripts/client.ts";
import { mebibytes, untilDone, type World } from "../serve/world.ts";
import { mounting, show, takeDown } from "./disk-volume.ts";
import { destroyZvol, iqn, makeTarget, makeZvol, removeTarget, switchTarget } from "./lio.ts";
import { type Made, startCsimux, unmountVolume } from "./rig.ts";
import { run, waitFor } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

// Each cause is a real one, made behind csimux's back, and what csimux tells of it comes and goes with it.

const limitMs = 600_000;

/** An address of this machine that is cut by a firewall rule: a server that dies. */
const mortal = "10.99.1.1";

let before: ReadonlySet<string>;
let folder: string;
let world: World;

const localPool = (parent: string): string =>
  [
    "driver: zfs-local-dataset",
    "zfs:",
    `  datasetParentName: ${parent}/v`,
    `  detachedSnapshotsDatasetParentName: ${parent}/s`,
    "  datasetEnableQuotas: true",
    "",
  ].join("\n");

beforeAll(async () => {
  before = await traces();
  folder = await mkdtemp("/srv/health-");
  for (const name of ["one", "two"]) {
    await writeFile(join(folder, name), "");
    await truncate(join(folder, name), 256 << 20);
  }
  await run(["zpool", "create", "-f", "hp", "mirror", join(folder, "one"), join(folder, "two")]);
  const secret = join(folder, "key");
  await writeFile(secret, "a passphrase\n");
  const encrypted = ["-o", "encryption=on", "-o", "keyformat=passphrase", "-o", `keylocation=file://${secret}`];
  await run(["zfs", "create", ...encrypted, "-o", "mountpoint=none", "hp/k"]);
  await run(["ip", "address", "add", `${mortal}/32`, "dev", "lo"]);
  world = await startCsimux({
    connections: { pool: localPool("hp/k") },
    flags: ["--health-interval=5"],
  });
}, limitMs);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await run(["ip", "address", "del", `${mortal}/32`, "dev", "lo"]);
  await run(["zpool", "destroy", "-f", "hp"]);
  await rm(folder, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
}, limitMs);

/** Waits until something is wrong for just these reasons. */
const until = (what: string, look: () => Promise<readonly string[]>, ...wanted: readonly string[]): Promise<true> =>
  waitFor(`${what}: ${wanted.join(" and ") || "nothing wrong"}`, async () =>
    (await look().catch(() => ["?"])).join() === wanted.join() ? true : undefined,
  );

const ofVolume = async (volumeId: string): Promise<readonly string[]> => {
  const { volumeHealth } = await world.controller("controllerGetVolumeHealth", { volumeId }, 60_000);
  return (volumeHealth?.healthStatuses ?? []).map(({ reason }) => reason);
};

const onNode = async (volumeId: string): Promise<readonly string[]> => {
  const { volumeHealth } = await world.node("nodeGetVolumeHealth", { volumeId }, 60_000);
  return (volumeHealth?.healthStatuses ?? []).map(({ reason }) => reason);
};

const storages = async (): Promise<readonly string[]> =>
  (await world.node("nodeGetStorageHealth", {}, 60_000)).backendHealth.map(({ reason }) => reason);

/** Cuts an address off while `work` runs: what arrives for it is dropped. */
async function whileCut(address: string, work: () => Promise<void>): Promise<void> {
  await run(["nft", "add table inet health"]);
  try {
    await run(["nft", "add chain inet health in { type filter hook input priority 0; }"]);
    for (const end of ["daddr", "saddr"]) await run(["nft", `add rule inet health in ip ${end} ${address} drop`]);
    await work();
  } finally {
    await run(["nft", "delete table inet health"]);
  }
}

test(
  "a pool that loses a disk is degraded for all its volumes, and a full quota or a missing key is told of one",
  async () => {
    const { volume } = await world.create("pvc-1", "pool", { capacityRange: mebibytes(64) as never }, 120_000);
    const id = volume?.volumeId ?? "";
    await until("a new volume", () => ofVolume(id));
    await run(["zpool", "offline", "hp", join(folder, "two")]);
    await until("a disk is away", () => ofVolume(id), "PoolDegraded");
    await run(["zpool", "online", "hp", join(folder, "two")]);
    await until("the disk is back", () => ofVolume(id));
    const place = join(folder, "place");
    await mkdir(place);
    await run(["mount", "-t", "zfs", "hp/k/v/pvc-1", place]);
    await run(["sh", "-c", `dd if=/dev/urandom of=${place}/big bs=1M count=80 2>/dev/null || :; sync`]);
    await until("the quota is used up", () => ofVolume(id), "QuotaFull");
    await run(["sh", "-c", `rm ${place}/big; sync`]);
    await until("there is room again", () => ofVolume(id));
    await run(["umount", place]);
    await run(["zfs", "unload-key", "hp/k"]);
    await until("the key is gone", () => ofVolume(id), "KeyNotLoaded");
    await run(["zfs", "load-key", "hp/k"]);
    await until("the key is back", () => ofVolume(id));
    await world.controller("deleteVolume", { volumeId: id }, 120_000);
  },
  limitMs,
);

test(
  "a server of NFS that falls silent makes its storage unreachable until it answers again",
  async () => {
    const share = join(folder, "share");
    await mkdir(share);
    await run(["exportfs", "-o", "rw,no_root_squash,insecure", `${mortal}:${share}`]);
    const made: Made = {
      volumeId: "v:nas/a",
      volumeContext: { node_attach_driver: "nfs", server: mortal, share },
    };
    const flags = { fsType: "nfs", mountFlags: ["vers=3", "nolock"] };
    const capability = { ...mountCapability, accessType: { case: "mount" as const, value: flags } };
    try {
      await show(world, made, { capability });
      await until("a mounted share", () => onNode(made.volumeId));
      await whileCut(mortal, async () => {
        await until("the server is silent", () => onNode(made.volumeId), "NotAnswering");
        await until("nothing of it answers", storages, "StorageUnreachable");
      });
      await until("the server is back", () => onNode(made.volumeId));
      await until("all is well", storages);
    } finally {
      await takeDown(world);
      await run(["exportfs", "-u", `${mortal}:${share}`]);
    }
  },
  limitMs,
);

test(
  "a session that goes down is told, and so is one of two ways that is lost",
  async () => {
    await run(["systemctl", "start", "multipathd"]);
    await makeZvol("disk0");
    const made: Made = {
      volumeId: "v:san/a",
      volumeContext: {
        ...{ node_attach_driver: "iscsi", iqn, lun: "0", interface: "default" },
        ...{ portal: "127.0.0.1:3260", portals: `${mortal}:3260` },
      },
    };
    try {
      await makeTarget(["disk0"]);
      await untilDone(() => show(world, made, { capability: mounting("ext4") }));
      await until("two ways", () => onNode(made.volumeId));
      await whileCut(mortal, async () => {
        await until("one way is lost", () => onNode(made.volumeId), "PathsLost");
        await until("the storage is not well", storages, "StorageDegraded");
      });
      await until("both ways are back", () => onNode(made.volumeId));
      await switchTarget(false);
      await until(
        "no way is left",
        async () => (await onNode(made.volumeId)).filter(each => each === "SessionDown"),
        "SessionDown",
      );
      await switchTarget(true);
      await until("the target is back", () => onNode(made.volumeId));
      await until("the storage is well", storages);
    } finally {
      await switchTarget(true).catch(() => {});
      await takeDown(world);
      await removeTarget();
      await destroyZvol("disk0");
      await run(["systemctl", "stop", "multipathd", "multipathd.socket"]);
    }
  },
  limitMs,
);

test(
  "a file system whose disk has errors is told until it was checked",
  async () => {
    const disk = join(folder, "disk");
    await writeFile(disk, "");
    await truncate(disk, 64 << 20);
    const loop = (await run(["losetup", "--find", "--show", disk])).trim();
    const place = join(folder, "ext4");
    const sectors = (64 << 20) / 512;
    const swap = async (table: string): Promise<void> => {
      await run(["dmsetup", "suspend", "--noflush", "--nolockfs", "csimux-health"]);
      await run(["dmsetup", "load", "csimux-health", "--table", table]);
      await run(["dmsetup", "resume", "csimux-health"]);
    };
    await run(["dmsetup", "create", "csimux-health", "--table", `0 ${sectors} linear ${loop} 0`]);
    const made: Made = { volumeId: "v:disk/a", volumeContext: { node_attach_driver: "hostpath", path: `${place}/a` } };
    try {
      await run(["mkfs.ext4", "-q", "/dev/mapper/csimux-health"]);
      await mkdir(place);
      await run(["mount", "-o", "errors=remount-ro", "/dev/mapper/csimux-health", place]);
      await mkdir(`${place}/a`);
      await run(["sync"]);
      const path = await show(world, made, {});
      await until("a good disk", () => onNode(made.volumeId));
      await swap(`0 ${sectors} error`);
      await run([
        "sh",
        "-c",
        `for n in 1 2 3 4 5 6 7 8; do echo x > ${path}/file$n; sync ${path} || :; done 2>/dev/null || :`,
      ]);
      await until(
        "errors",
        async () => (await onNode(made.volumeId)).filter(each => each === "FileSystemErrors"),
        "FileSystemErrors",
      );
      await swap(`0 ${sectors} linear ${loop} 0`);
      await unmountVolume(world, made);
      await run(["umount", place]);
      await run(["e2fsck", "-fy", "/dev/mapper/csimux-health"]).catch(() => {});
      await run(["mount", "/dev/mapper/csimux-health", place]);
      await show(world, made, {});
      await until("a mended file system", () => onNode(made.volumeId));
    } finally {
      await takeDown(world);
      await run(["sh", "-c", `umount ${place} 2>/dev/null || :`]);
      await run(["dmsetup", "remove", "csimux-health"]);
      await run(["losetup", "-d", loop]);
    }
  },
  limitMs,
);

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { mountCapability } from "../../../scripts/client.ts";
import { mebibytes, untilDone, type World } from "../../serve/world.ts";
import { mounting, show, takeDown } from "../disk-volume.ts";
import { type Made, startCsimux, unmountVolume } from "../rig.ts";
import { run } from "../run.ts";
import { leftSince, traces } from "../traces.ts";
import { destroyZvol, iqn, makeTarget, makeZvol, removeTarget, switchTarget } from "../zfs/lio.ts";
import { failingDisk, looksAt, until } from "./health-looks.ts";

// csimux reports each real fault as soon as it exists, and no longer.

const limitMs = 600_000;

/** An address of this machine that a firewall rule blocks: a server that dies. */
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

const { ofVolume, onNode, storages } = looksAt(() => world);

/** Drops incoming packets for an address while `work` runs. */
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
  "a pool that loses a disk is degraded for all its volumes, and a full quota or a missing key is reported for one",
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
  "an NFS server that becomes silent makes its storage unreachable until it answers again",
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
  "a session that goes down is reported, and so is the loss of one of two paths",
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
  "a file system with disk errors is reported until it was checked",
  async () => {
    const disk = await failingDisk("csimux-health", join(folder, "disk"));
    const place = join(folder, "ext4");
    const made: Made = { volumeId: "v:disk/a", volumeContext: { node_attach_driver: "hostpath", path: `${place}/a` } };
    try {
      await run(["mkfs.ext4", "-q", disk.path]);
      await mkdir(place);
      await run(["mount", "-o", "errors=remount-ro", disk.path, place]);
      await mkdir(`${place}/a`);
      await run(["sync"]);
      const path = await show(world, made, {});
      await until("a good disk", () => onNode(made.volumeId));
      await disk.fail();
      await run([
        "sh",
        "-c",
        `for n in 1 2 3 4 5 6 7 8; do echo x > ${path}/file$n; sync ${path} || :; done 2>/dev/null || :`,
      ]);
      const errors = async () => (await onNode(made.volumeId)).filter(each => each === "FileSystemErrors");
      await until("errors", errors, "FileSystemErrors");
      await disk.mend();
      await unmountVolume(world, made);
      await run(["umount", place]);
      await run(["e2fsck", "-fy", disk.path]).catch(() => {});
      await run(["mount", disk.path, place]);
      await show(world, made, {});
      await until("a repaired file system", () => onNode(made.volumeId));
    } finally {
      await takeDown(world);
      await run(["sh", "-c", `umount ${place} 2>/dev/null || :`]);
      await disk.remove();
    }
  },
  limitMs,
);

test(
  "a share is stale after its folder was recreated on the server, until it is staged again",
  async () => {
    const share = join(folder, "again");
    await mkdir(join(share, "a"), { recursive: true });
    await run(["exportfs", "-o", "rw,no_root_squash,insecure", `${mortal}:${share}`]);
    const made: Made = {
      volumeId: "v:again/a",
      volumeContext: { node_attach_driver: "nfs", server: mortal, share: `${share}/a` },
    };
    const flags = { fsType: "nfs", mountFlags: ["vers=4.2", "actimeo=1"] };
    const capability = { ...mountCapability, accessType: { case: "mount" as const, value: flags } };
    try {
      await show(world, made, { capability });
      await until("a mounted share", () => onNode(made.volumeId));
      await run(["mv", join(share, "a"), join(share, "old")]);
      await rm(join(share, "old"), { recursive: true });
      await mkdir(join(share, "a"));
      await until("its server knows it no more", () => onNode(made.volumeId), "StaleHandle");
      await until("the storage is not well", storages, "StorageDegraded");
      await unmountVolume(world, made);
      await show(world, made, { capability });
      await until("it was staged again", () => onNode(made.volumeId));
      await until("the storage is well", storages);
    } finally {
      await takeDown(world);
      await run(["exportfs", "-u", `${mortal}:${share}`]);
    }
  },
  limitMs,
);

test(
  "a disk that the kernel has lost is gone until the volume is attached again",
  async () => {
    await makeZvol("disk0");
    const made: Made = {
      volumeId: "v:lost/a",
      volumeContext: { node_attach_driver: "iscsi", iqn, lun: "0", interface: "default", portal: "127.0.0.1:3260" },
    };
    try {
      await makeTarget(["disk0"]);
      const path = await untilDone(() => show(world, made, { capability: mounting("ext4") }));
      await until("a disk", () => onNode(made.volumeId));
      const source = (await run(["findmnt", "-n", "-o", "SOURCE", path])).trim();
      await writeFile(`/sys/class/block/${basename(source)}/device/delete`, "1");
      const gone = async () => (await onNode(made.volumeId)).filter(each => each === "DeviceGone");
      await until("the disk is gone", gone, "DeviceGone");
      await until("the storage is not well", storages, "StorageDegraded");
      await unmountVolume(world, made);
      await untilDone(() => show(world, made, { capability: mounting("ext4") }));
      await until("it is attached again", () => onNode(made.volumeId));
      await until("the storage is well", storages);
    } finally {
      await takeDown(world);
      await removeTarget();
      await destroyZvol("disk0");
    }
  },
  limitMs,
);

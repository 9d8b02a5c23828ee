import { expect, test } from "bun:test";
import { mkdir, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { codeOf, mebibytes, status, type World } from "../../serve/world.ts";
import { mountVolume, startCsimux, unmountVolume } from "../rig.ts";
import { run } from "../run.ts";
import { behindExport, type ZfsDriver, zfsDrivers } from "./zfs-drivers.ts";
import { storageHost } from "./zfs-host.ts";
import { deleteVolume, makeVolume, poolBelow } from "./zfs-pool.ts";

// The kernel, its NFS server, Samba, LIO and nvmet report a volume in use, and a refused deletion disturbs no client.

const shared = zfsDrivers.filter(({ connection }) => ["nfs", "sudo", "smb", "iscsi", "nvmeof"].includes(connection));

const fileOf = storageHost();

const textOf = (path: string): Promise<string> => readFile(path, "utf8").catch(() => "");

/** How volumes are shared now, including the persistent configuration; exports of this dataset. */
const sharing = async (dataset: string): Promise<object> => ({
  exports: (await readFile("/var/lib/nfs/etab", "utf8")).split("\n").filter(line => line.startsWith(`/${dataset}\t`)),
  usershares: await readdir("/var/lib/samba/usershares"),
  targets: (await run(["find", "/sys/kernel/config"])).split("\n").sort(),
  saved: await Promise.all(["/etc/rtslib-fb-target/saveconfig.json", "/etc/nvmet/config.json"].map(textOf)),
});

/** The volume's shares, properties and snapshots. */
const shown = async (dataset: string): Promise<object> => ({
  mounted: await run(["zfs", "get", "-H", "-o", "property,value,source", "mounted,sharenfs,sharesmb", dataset]),
  properties: await run(["zfs", "get", "-H", "-s", "local", "-o", "property,value", "all", dataset]),
  snapshots: await poolBelow(dataset),
  ...(await sharing(dataset)),
});

test.each(shared)(
  "a volume of $title is not deleted while a pod writes to it, and the pod continues; afterwards it is deleted",
  async driver => {
    const world = await startCsimux({ connections: { [driver.connection]: fileOf(driver) } });
    try {
      await refusedThenDeleted(world, driver);
    } finally {
      expect(await world.end()).toEqual([]);
    }
  },
  900_000,
);

test("volumes behind one export are in use like others, and where one is not mounted, a node cannot write into its folder", async () => {
  const { connection } = behindExport;
  const folder = `/tank/${connection}/v`;
  // In a file, since each change of a dataset's sharenfs ends the exports that no file has (OpenZFS, lib/libshare/os/linux/nfs.c: exportfs -ra).
  const exportsFile = "/etc/exports.d/lab-crossmnt.exports";
  const exported = async (squash: string) => {
    await mkdir("/etc/exports.d", { recursive: true });
    await writeFile(exportsFile, `${folder} 127.0.0.1(rw,insecure,crossmnt,${squash},no_subtree_check)\n`);
    await run(["exportfs", "-ra"]);
  };
  await run(["zfs", "create", "-p", folder.slice(1)]);
  await exported("no_root_squash");
  const world = await startCsimux({ connections: { [connection]: fileOf(behindExport) } });
  try {
    const first = world.create("first", connection, { capacityRange: mebibytes(64) }, 120_000);
    expect(await codeOf(first)).toBe(status.unavailable);
    await exported("root_squash");
    await refusedThenDeleted(world, behindExport);
    const volume = await makeVolume(world, connection, "closed");
    await run(["zfs", "unmount", `${folder.slice(1)}/closed`]);
    const write = mountVolume(world, volume, behindExport.mount).then(path => writeFile(join(path, "lost"), "lost"));
    expect(
      await write.then(
        () => "written",
        () => "refused",
      ),
    ).toBe("refused");
    await unmountVolume(world, volume);
    expect(await readdir(`${folder}/closed`)).toEqual([]);
    await run(["zfs", "mount", `${folder.slice(1)}/closed`]);
    await deleteVolume(world, volume.volumeId);
  } finally {
    expect(await world.end()).toEqual([]);
    await rm(exportsFile);
    await run(["exportfs", "-ra"]);
    await run(["exportfs", "-f"]);
    await run(["zfs", "destroy", "-r", `tank/${connection}`]);
  }
}, 900_000);

async function refusedThenDeleted(world: World, { connection, mount }: ZfsDriver): Promise<void> {
  const dataset = `tank/${connection}/v/used`;
  // The first volume of a connection leaves shared objects, such as the iSCSI fabric.
  await deleteVolume(world, (await makeVolume(world, connection, "first")).volumeId);
  const before = await sharing(dataset);
  const volume = await makeVolume(world, connection, "used");
  const path = await mountVolume(world, volume, mount);
  const file = await open(join(path, "file"), "w");
  await file.write("first\n");
  await run(["zfs", "snapshot", `${dataset}@nightly-backup`]);
  const whole = await shown(dataset);
  const remove = () => codeOf(world.controller("deleteVolume", { volumeId: volume.volumeId }, 240_000));
  let lines = 0;
  let written = 1;
  let stop = false;
  const writing = (async () => {
    for (; !stop; written++) {
      await file.write(`${written}\n`);
      await file.sync();
    }
  })();
  try {
    for (const _ of [1, 2])
      expect<(number | string)[]>([status.failedPrecondition, status.aborted]).toContain(await remove());
    expect(await shown(dataset)).toEqual(whole);
  } finally {
    stop = true;
    await writing;
    await file.close();
    lines = (await readFile(join(path, "file"), "utf8")).trimEnd().split("\n").length;
    await unmountVolume(world, volume);
  }
  expect(lines).toBe(written);
  await deleteVolume(world, volume.volumeId);
  expect(await poolBelow(`tank/${connection}`)).toEqual(["/v"]);
  expect(await sharing(dataset)).toEqual(before);
}

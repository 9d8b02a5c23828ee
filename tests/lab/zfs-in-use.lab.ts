import { expect, test } from "bun:test";
import { open, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { codeOf, status, type World } from "../serve/world.ts";
import { mountVolume, startCsimux, unmountVolume } from "./rig.ts";
import { run } from "./run.ts";
import { type ZfsDriver, zfsDrivers } from "./zfs-drivers.ts";
import { storageHost } from "./zfs-host.ts";
import { deleteVolume, makeVolume, poolBelow } from "./zfs-pool.ts";

// What the kernel, its NFS server and Samba say of a share in use, and that a deletion which is refused disturbs nobody.

const shares = zfsDrivers.filter(({ connection }) => ["nfs", "sudo", "smb"].includes(connection));

const fileOf = storageHost();

const usershares = (): Promise<readonly string[]> => readdir("/var/lib/samba/usershares");

/** How the volume is shared now, and which snapshots it has. */
const shown = async (dataset: string): Promise<object> => ({
  properties: await run(["zfs", "get", "-H", "-o", "property,value,source", "mounted,sharenfs,sharesmb", dataset]),
  snapshots: await poolBelow(dataset),
  exports: (await readFile("/var/lib/nfs/etab", "utf8")).split("\n").filter(line => line.startsWith(`/${dataset}\t`)),
  usershares: await usershares(),
});

test.each(shares)(
  "a volume of $title is not deleted while a pod writes to it, and the pod goes on; afterwards it is",
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

async function refusedThenDeleted(world: World, { connection, mount }: ZfsDriver): Promise<void> {
  const before = await usershares();
  const volume = await makeVolume(world, connection, "used");
  const dataset = `tank/${connection}/v/used`;
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
  expect(await usershares()).toEqual(before);
}

import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { World } from "../../serve/world.ts";
import { startCsimux, whileMounted } from "../rig.ts";
import { run, waitFor } from "../run.ts";
import { type ZfsDriver, zfsDrivers } from "./zfs-drivers.ts";
import { storageHost } from "./zfs-host.ts";
import { deleteVolume, makeVolume, poolBelow } from "./zfs-pool.ts";

// A storage host that restarts without its configuration loses exports and targets, never volumes.

const used = zfsDrivers.filter(({ connection }) => ["nfs", "iscsi"].includes(connection));

const fileOf = storageHost();

/** How an export or target is removed, and whether it exists. */
const ways: Readonly<
  Record<string, { lose(): Promise<unknown>; stands(context: Readonly<Record<string, string>>): Promise<boolean> }>
> = {
  nfs: {
    lose: () => run(["zfs", "unshare", "-a"]),
    stands: async ({ share = "" }) => (await readFile("/var/lib/nfs/etab", "utf8")).includes(`${share}\t`),
  },
  iscsi: {
    lose: () => run(["targetcli", "clearconfig", "confirm=True"]),
    stands: async ({ iqn = "" }) => existsSync(`/sys/kernel/config/target/iscsi/${iqn}/tpgt_1/lun/lun_0`),
  },
};

test.each(used)(
  "the export or target of a volume of $title is restored automatically soon after its host has lost it",
  async driver => {
    const connections = { [driver.connection]: fileOf(driver) };
    const world = await startCsimux({ connections, flags: ["--health-interval=15"] });
    try {
      await lostAndFound(world, driver);
    } finally {
      const lines = (await world.daemon.log()).split("\n").filter(line => /health|restore|inaccessible/.test(line));
      process.stderr.write(`${lines.slice(-6).join("\n")}\n`);
      expect(await world.end()).toEqual([]);
    }
  },
  900_000,
);

async function lostAndFound(world: World, { connection, mount }: ZfsDriver): Promise<void> {
  const way = ways[connection];
  if (!way) throw new Error(`${connection} has no way`);
  const volume = await makeVolume(world, connection, `lost-${connection}`);
  expect(await way.stands(volume.volumeContext)).toBe(true);
  await way.lose();
  expect(await way.stands(volume.volumeContext)).toBe(false);
  await waitFor(
    "the restored export or target",
    async () => (await way.stands(volume.volumeContext)) || undefined,
    600_000,
  );
  await whileMounted(world, volume, async () => {}, mount);
  await deleteVolume(world, volume.volumeId);
  expect(await poolBelow(`tank/${connection}`)).toEqual(["/v"]);
}

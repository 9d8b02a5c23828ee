import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { exists } from "../../scripts/exists.ts";
import type { World } from "../serve/world.ts";
import { startCsimux, whileMounted } from "./rig.ts";
import { run, waitFor } from "./run.ts";
import { type Login, makeLogin } from "./ssh-login.ts";
import { leftSince, traces } from "./traces.ts";
import { zfsDrivers } from "./zfs-drivers.ts";
import { deleteVolume, makeVolume, poolBelow } from "./zfs-pool.ts";

// What a storage host loses that begins anew without its configuration: its exports and its targets, never its volumes.

const used = zfsDrivers.filter(({ connection }) => ["nfs", "iscsi"].includes(connection));

let before: ReadonlySet<string>;
let login: Login;
let world: World;

beforeAll(async () => {
  before = await traces();
  login = await makeLogin();
  const files = used.map(driver => [driver.connection, driver.file(login)] as const);
  world = await startCsimux({ connections: Object.fromEntries(files), flags: ["--health-interval=5"] });
}, 240_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await login.remove();
  for (const { connection } of used)
    await run(["sh", "-c", 'zfs destroy -r "$1" 2>/dev/null || :', "destroy", `tank/${connection}`]);
  expect(await leftSince(before)).toEqual([]);
}, 240_000);

/** How the way to a volume of each is lost, and whether it is there. */
const ways: Readonly<
  Record<string, { lose(): Promise<unknown>; stands(context: Readonly<Record<string, string>>): Promise<boolean> }>
> = {
  nfs: {
    lose: () => run(["zfs", "unshare", "-a"]),
    stands: async ({ share = "" }) => (await readFile("/var/lib/nfs/etab", "utf8")).includes(`${share}\t`),
  },
  iscsi: {
    lose: () => run(["targetcli", "clearconfig", "confirm=True"]),
    stands: ({ iqn = "" }) => exists(`/sys/kernel/config/target/iscsi/${iqn}/tpgt_1/lun/lun_0`),
  },
};

test.each(used)(
  "what leads to a volume of $title is made anew soon after its host has lost it, and nobody has to ask",
  async ({ connection, mount }) => {
    const way = ways[connection];
    if (!way) throw new Error(`${connection} has no way`);
    const volume = await makeVolume(world, connection, `lost-${connection}`);
    expect(await way.stands(volume.volumeContext)).toBe(true);
    await way.lose();
    expect(await way.stands(volume.volumeContext)).toBe(false);
    await waitFor("the way to the volume", async () => (await way.stands(volume.volumeContext)) || undefined, 240_000);
    await whileMounted(world, volume, async () => {}, mount);
    await deleteVolume(world, volume.volumeId);
    expect(await poolBelow(`tank/${connection}`)).toEqual(["/v"]);
  },
  600_000,
);

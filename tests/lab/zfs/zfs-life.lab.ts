import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { codeOf, mebibytes, status, type World } from "../../serve/world.ts";
import { persistently } from "../persistently.ts";
import { type Made, startCsimux, whileMounted } from "../rig.ts";
import { run } from "../run.ts";
import { byNode, type ZfsDriver, zfsDrivers } from "./zfs-drivers.ts";
import { storageHost } from "./zfs-host.ts";
import { deleteSnapshot, deleteVolume, digestOf, makeSnapshot, makeVolume, poolBelow, roomOf } from "./zfs-pool.ts";

// The storage host is this machine, over ssh, or directly if volumes are local.

const limitMs = 1_500_000;
const parents = ["/s", "/v"];

const fileOf = storageHost();
let world: World;

/** csimux with only this connection: on an emulated processor, each further one adds seconds to a listing. */
async function withDriver(driver: ZfsDriver | undefined, work: () => Promise<void>): Promise<void> {
  if (!driver) throw new Error("there is no such driver");
  const connections = { [driver.connection]: fileOf(driver) };
  world = await startCsimux({ connections, proxy: byNode, flags: ["--health-interval=0"] });
  try {
    await work();
  } finally {
    expect(await world.end()).toEqual([]);
  }
}

/** Writes and syncs content; returns its digest. */
async function written(path: string): Promise<string> {
  await writeFile(join(path, "data"), randomBytes(3 << 20));
  await run(["sync", "-f", path]);
  return digestOf(join(path, "data"));
}

/** Expands a volume in use. */
async function grown({ disk }: ZfsDriver, { volumeId }: Made, path: string): Promise<void> {
  const room = await roomOf(path);
  const capacityRange = mebibytes(160);
  const answer = await world.controller("controllerExpandVolume", { volumeId, capacityRange }, 120_000);
  expect(answer).toMatchObject({ capacityBytes: 160n << 20n, nodeExpansionRequired: disk });
  if (disk) await world.node("nodeExpandVolume", { volumeId, volumePath: path, capacityRange }, 120_000);
  expect(await roomOf(path)).toBeGreaterThan(room * 2);
}

test.each(zfsDrivers)(
  "the whole life of a volume of $title, with snapshots, clones and copies",
  driver => withDriver(driver, () => wholeLife(driver)),
  limitMs,
);

async function wholeLife(driver: ZfsDriver): Promise<void> {
  const { connection, mount } = driver;
  const make = (name: string, wish = {}) => makeVolume(world, connection, name, wish);
  const volume = await make("pvc-1");
  expect(await make("pvc-1")).toEqual(volume);
  const full = { detachedVolumesFromVolumes: "true", detachedVolumesFromSnapshots: "true" };
  const taken = await whileMounted(
    world,
    volume,
    async path => {
      const old = await written(path);
      const snapshot = await makeSnapshot(world, volume.volumeId, `snap-${connection}`);
      const detached = await makeSnapshot(world, volume.volumeId, `copy-${connection}`, {
        detachedSnapshots: "true",
      });
      const now = await written(path);
      await grown(driver, volume, path);
      return { snapshot, detached, old, now };
    },
    mount,
  );
  const from = { volume: volume.volumeId };
  const others: readonly (readonly [Made, string])[] = [
    [await make("restored", { from: { snapshot: taken.snapshot }, size: 160 }), taken.old],
    [await make("from-copy", { from: { snapshot: taken.detached } }), taken.old],
    [await make("full-restored", { from: { snapshot: taken.detached }, parameters: full }), taken.old],
    [await make("clone", { from, size: 160 }), taken.now],
    [await make("full-clone", { from, size: 160, parameters: full }), taken.now],
  ];
  const shows = (each: Made, digest: string) =>
    whileMounted(world, each, async path => expect(await digestOf(join(path, "data"))).toBe(digest), mount);
  for (const [each, digest] of others) await shows(each, digest);
  const { entries } = await persistently(() => world.controller("listVolumes", {}, 60_000));
  const named = entries.flatMap(({ volume: each }) => (each ? [each.volumeId] : []));
  expect(named.filter(id => id.startsWith(`v:${connection}/`)).sort()).toEqual(
    [volume, ...others.map(([each]) => each)].map(({ volumeId }) => volumeId).sort(),
  );
  // A refused deletion changes nothing, and the volume stays reachable.
  const early = codeOf(world.controller("deleteVolume", { volumeId: volume.volumeId }, 120_000));
  expect(await early).toBe(status.failedPrecondition);
  await shows(volume, taken.now);
  for (const id of [taken.snapshot, taken.detached]) {
    const refused = await codeOf(world.controller("deleteSnapshot", { snapshotId: id }, 120_000));
    expect<(number | string)[]>(["ok", status.failedPrecondition]).toContain(refused);
  }
  for (const [each] of others) await deleteVolume(world, each.volumeId);
  for (const id of [taken.snapshot, taken.detached]) await deleteSnapshot(world, id);
  await deleteVolume(world, volume.volumeId);
  await deleteVolume(world, volume.volumeId);
  expect(await poolBelow(`tank/${connection}`)).toEqual(parents);
}

const usedTogether = async () => {
  const names = ["a", "b", "c", "d"];
  const made: Made[] = [];
  for (const name of names) made.push(await makeVolume(world, "nfs", `used-${name}`));
  for (const each of made) await whileMounted(world, each, path => writeFile(join(path, "x"), "x"));
  await Promise.all(made.map(({ volumeId }) => world.controller("deleteVolume", { volumeId }, 120_000)));
  expect(await poolBelow("tank/nfs/v")).toEqual([]);
};

test(
  "volumes that clients have used can be deleted concurrently",
  () =>
    withDriver(
      zfsDrivers.find(({ connection }) => connection === "nfs"),
      usedTogether,
    ),
  limitMs,
);

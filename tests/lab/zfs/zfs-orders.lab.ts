import { afterAll, beforeAll, expect, test } from "bun:test";
import { codeOf, status, type World } from "../../serve/world.ts";
import { persistently } from "../persistently.ts";
import { startCsimux } from "../rig.ts";
import { run } from "../run.ts";
import { leftSince, traces } from "../traces.ts";
import { byNode } from "./zfs-drivers.ts";
import { makeSnapshot, makeVolume, poolBelow } from "./zfs-pool.ts";

// Deletion depends only on ZFS, so it is tested with the simplest driver.

const policies = ["fail", "tombstone"];

const file = (policy: string): string =>
  [
    "driver: zfs-local-dataset",
    "zfs:",
    `  datasetParentName: tank/${policy}/v`,
    `  detachedSnapshotsDatasetParentName: tank/${policy}/s`,
    `  deleteWithDependents: ${policy}`,
    "",
  ].join("\n");

let before: ReadonlySet<string>;
let world: World;

beforeAll(async () => {
  before = await traces();
  const files = policies.map(policy => [policy, file(policy)] as const);
  world = await startCsimux({ connections: Object.fromEntries(files), proxy: byNode });
}, 120_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  for (const policy of policies)
    await run(["sh", "-c", 'zfs destroy -R "$1" 2>/dev/null || :', "destroy", `tank/${policy}`]);
  expect(await leftSince(before)).toEqual([]);
}, 120_000);

const permutations = <T>(items: readonly T[]): readonly (readonly T[])[] =>
  items.length === 0
    ? [[]]
    : items.flatMap((item, at) => permutations(items.toSpliced(at, 1)).map(rest => [item, ...rest]));

const kinds = ["volume", "snapshot", "restored", "clone"] as const;

/** A volume with a snapshot, a volume made from the snapshot and a clone of the volume: how each is deleted. */
async function family(policy: string, round: number): Promise<Record<(typeof kinds)[number], () => Promise<unknown>>> {
  const { volumeId } = await makeVolume(world, policy, `v${round}`);
  const snapshotId = await makeSnapshot(world, volumeId, `s${round}-${policy}`);
  const restored = await makeVolume(world, policy, `r${round}`, { from: { snapshot: snapshotId } });
  const clone = await makeVolume(world, policy, `c${round}`, { from: { volume: volumeId } });
  const remove = (id: string) => () => world.controller("deleteVolume", { volumeId: id }, 60_000);
  return {
    volume: remove(volumeId),
    snapshot: () => world.controller("deleteSnapshot", { snapshotId }, 60_000),
    restored: remove(restored.volumeId),
    clone: remove(clone.volumeId),
  };
}

test.each(policies)(
  "in any order of deletion, everything is deleted (%s)",
  async policy => {
    for (const [round, order] of permutations(kinds).entries()) {
      const deletions = await family(policy, round);
      let left: readonly (typeof kinds)[number][] = order;
      for (let pass = 0; left.length > 0; pass++) {
        if (pass === kinds.length) throw new Error(`${order.join(", ")}: ${left.join(", ")} cannot be deleted`);
        const refused: (typeof kinds)[number][] = [];
        for (const kind of left) {
          const code = await codeOf(deletions[kind]());
          if (code !== "ok") refused.push(kind);
          expect<(number | string)[]>(["ok", status.failedPrecondition]).toContain(code);
        }
        if (policy === "tombstone") expect(refused).toEqual([]);
        left = refused;
      }
      expect({ order, left: await poolBelow(`tank/${policy}/v`) }).toEqual({ order, left: [] });
    }
  },
  900_000,
);

test("all at once, each is gone when its deletion is answered, whatever is set aside meanwhile", async () => {
  for (let round = 100; round < 108; round++) {
    const deletions = Object.values(await family("tombstone", round));
    await Promise.all(deletions.map(persistently));
    const { entries: snapshots } = await persistently(() => world.controller("listSnapshots", {}, 60_000));
    const { entries: volumes } = await persistently(() => world.controller("listVolumes", {}, 60_000));
    expect({ round, snapshots, volumes }).toEqual({ round, snapshots: [], volumes: [] });
  }
}, 600_000);

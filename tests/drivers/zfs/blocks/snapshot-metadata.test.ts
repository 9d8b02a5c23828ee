import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BlockRanges, Driver } from "../../../../lib/drivers/driver.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { dump, freed, objects, putZstream, written } from "../../../fakes/zfs/zstream.ts";
import { type ZfsRig, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const open = perTest(() => zfsRig({ driver: "zfs-local-zvol", programs: true }));
const block = 16_384n;
const bytes = 64n << 20n;

/** A volume "a" with the snapshots "s1" and "s2" on a host whose zstream prints lists. */
async function made() {
  const rig = await open();
  putZstream(rig.fake.bin);
  writeFileSync(join(rig.fake.bin, "whole"), dump(...objects(8n * block), written(0n, block), written(block, block)));
  writeFileSync(
    join(rig.fake.bin, "later"),
    dump(...objects(8n * block), written(0n, block), freed(4n * block, block)),
  );
  rig.fake.zfs("create", "-p", "tank/k/s");
  const driver = rig.open();
  await driver.create(volumeOf("a", bytes), call);
  const snapshots = snapshotsOf(driver);
  for (const name of ["s1", "s2"]) await snapshots.create(name, "a", {}, call);
  return { rig, driver, snapshots };
}

/** All parts of a list. */
async function parts(driver: Driver, id: string, base?: string, from = 0n): Promise<readonly BlockRanges[]> {
  const all: BlockRanges[] = [];
  for await (const part of driver.snapshotMetadata?.ranges(id, base, from, call) ?? []) all.push(part);
  return all;
}

const rangesOf = (all: readonly BlockRanges[]) =>
  all.flatMap(({ ranges }) => ranges.map(({ offset, bytes: length }) => [offset / block, length / block].map(Number)));

test("the blocks of a zvol's snapshot are those that its stream writes, in every part with the size of the volume", async () => {
  const { driver } = await made();
  const all = await parts(driver, "a@s2");
  expect(rangesOf(all)).toEqual([[0, 2]]);
  expect(new Set(all.map(({ capacity }) => capacity))).toEqual(new Set([bytes]));
});

test("the changes since an earlier snapshot are those that the stream between them writes and frees", async () => {
  const { driver } = await made();
  expect(rangesOf(await parts(driver, "a@s2", "a@s1"))).toEqual([
    [0, 1],
    [4, 1],
  ]);
});

test("a list begins at the block of its offset, and one at the end of the volume is empty", async () => {
  const { driver } = await made();
  expect(rangesOf(await parts(driver, "a@s2", undefined, block + 1n))).toEqual([[1, 1]]);
  expect(await parts(driver, "a@s2", undefined, bytes)).toEqual([{ capacity: bytes, ranges: [] }]);
});

describe("refused is", () => {
  /** The code of a list in another situation. */
  const cases: Readonly<
    Record<string, readonly [string, (given: Awaited<ReturnType<typeof made>>) => Promise<unknown>]>
  > = {
    "a snapshot that does not exist": ["not-found", ({ driver }) => parts(driver, "a@none")],
    "an earlier one that does not exist": ["not-found", ({ driver }) => parts(driver, "a@s2", "a@none")],
    "an id that cannot be one": ["not-found", ({ driver }) => parts(driver, "a")],
    "an earlier one that is later": ["invalid-argument", ({ driver }) => parts(driver, "a@s1", "a@s2")],
    "an earlier one that is the same": ["invalid-argument", ({ driver }) => parts(driver, "a@s1", "a@s1")],
    "an earlier one of another volume": ["invalid-argument", ({ driver }) => parts(driver, "a@s1", "b@s2")],
    "an offset behind the end": ["out-of-range", ({ driver }) => parts(driver, "a@s1", undefined, bytes + 1n)],
    "a detached snapshot": [
      "failed-precondition",
      async ({ driver, snapshots }) => {
        const { id } = await snapshots.create("far", "a", { detachedSnapshots: "true" }, call);
        return parts(driver, id);
      },
    ],
    "an encrypted volume without its key": [
      "failed-precondition",
      async ({ rig, driver }) => {
        encrypt(rig, true);
        return parts(driver, "a@s1");
      },
    ],
    "an encrypted volume of a ZFS that does not send it reliably": [
      "failed-precondition",
      async ({ rig, driver }) => {
        encrypt(rig, false);
        rig.fake.faults({ version: "2.1.11-1" });
        return parts(driver, "a@s1");
      },
    ],
    "an earlier one that only a deleted volume of the same id has": [
      "failed-precondition",
      async ({ driver, snapshots }) => {
        await driver.delete("a", call);
        await driver.create(volumeOf("a"), call);
        await snapshots.create("s3", "a", {}, call);
        return parts(driver, "a@s3", "a@s1");
      },
    ],
    "a host whose zstream prints something else": [
      "failed-precondition",
      ({ rig, driver }) => {
        writeFileSync(join(rig.fake.bin, "whole"), dump("WRITE object = 1 offset = 0"));
        return parts(driver, "a@s1");
      },
    ],
  };

  test.each(Object.entries(cases))("%s", async (_, [code, list]) => {
    const given = await made();
    expect(await codeOf(list(given))).toBe(code as never);
  });
});

test("file systems have no list of blocks", async () => {
  const rig = await zfsRig({ driver: "zfs-generic-nfs" });
  try {
    expect(rig.open().snapshotMetadata).toBeUndefined();
  } finally {
    await rig.close();
  }
});

/** Encrypts the volume; `locked`: its key is not loaded. */
function encrypt(rig: ZfsRig, locked: boolean): void {
  rig.fake.with(pools => {
    const thing = pools.find("tank/k/v/a");
    if (!thing) return;
    thing.own["encryption"] = { value: "aes-256-gcm", source: "local" };
    thing.locked = locked;
  });
}

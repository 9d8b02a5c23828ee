import { describe, expect, test } from "bun:test";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, gib, snapshotIds, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { type Meeting, played, repeated } from "../../../contract/second-writer/meeting.ts";
import { from, openZfs, type ZfsRig, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const driver = "zfs-generic-nfs";
const aside = { deleteWithDependents: "tombstone" };
const open = perTest((zfs: object = aside) => zfsRig({ driver, zfs }));

describe("a deletion answers when nothing is left, although the volume is set aside meanwhile:", () => {
  test("of a snapshot", async () => {
    const rig = await open();
    await played(rig, {
      async prepare(driver) {
        await driver.create(volumeOf("pvc-1"), call);
        await snapshotsOf(driver).create("snap", "pvc-1", {}, call);
      },
      first: driver => snapshotsOf(driver).delete("pvc-1@snap", call),
      second: driver => driver.delete("pvc-1", call),
      check: met => expectGone(rig, met),
    });
  });

  test("of a group snapshot", async () => {
    const rig = await open();
    await played(rig, {
      async prepare(driver) {
        for (const id of ["pvc-1", "pvc-2"]) await driver.create(volumeOf(id), call);
        await driver.groupSnapshots?.create("snap", ["pvc-1", "pvc-2"], {}, call);
      },
      first: async driver => driver.groupSnapshots?.delete("snap", [], call),
      second: async driver => {
        for (const id of ["pvc-1", "pvc-2"]) await driver.delete(id, call);
      },
      check: met => expectGone(rig, met),
    });
  });

  /** What was reported as deleted is gone; afterwards the volumes are deleted, too. */
  async function expectGone(rig: ZfsRig, { plan, first, second }: Meeting): Promise<void> {
    const about = [plan, first, second];
    if (first === "ok") expect([...about, await snapshotIds(rig.open())]).toEqual([...about, []]);
    for (const id of ["pvc-1", "pvc-2"]) await repeated(() => rig.open().delete(id, call));
    await repeated(async () => rig.open().groupSnapshots?.delete("snap", [], call));
    await repeated(() => snapshotsOf(rig.open()).delete("pvc-1@snap", call));
    expect([...about, await rig.remains()]).toEqual([...about, []]);
  }
});

test.each([
  ["all snapshots", undefined],
  ["the snapshots of the volume", "pvc-1"],
])("a list of %s has the snapshot of a volume that is set aside meanwhile", async (_, volumeId) => {
  const rig = await open();
  let listed: readonly string[] = [];
  await played(rig, {
    async prepare(driver) {
      await driver.create(volumeOf("pvc-1"), call);
      await snapshotsOf(driver).create("snap", "pvc-1", {}, call);
    },
    first: async driver => {
      listed = await snapshotIds(driver, volumeId);
    },
    second: driver => driver.delete("pvc-1", call),
    async check({ plan, first }) {
      if (first === "ok") expect([plan, listed]).toEqual([plan, ["pvc-1@snap"]]);
      await repeated(() => rig.open().delete("pvc-1", call));
      await repeated(() => snapshotsOf(rig.open()).delete("pvc-1@snap", call));
      expect([plan, await rig.remains()]).toEqual([plan, []]);
    },
  });
});

test("a group snapshot has all its members, although a volume is set aside meanwhile", async () => {
  const rig = await open();
  let members: readonly string[] | undefined;
  await played(rig, {
    async prepare(driver) {
      for (const id of ["pvc-1", "pvc-2"]) await driver.create(volumeOf(id), call);
      await driver.groupSnapshots?.create("snap", ["pvc-1", "pvc-2"], {}, call);
    },
    first: async driver => {
      members = (await driver.groupSnapshots?.get("snap", [], call))?.snapshots.map(({ id }) => id);
    },
    second: driver => driver.delete("pvc-1", call),
    async check({ plan, first }) {
      if (first === "ok") expect([plan, members]).toEqual([plan, ["pvc-1@snap", "pvc-2@snap"]]);
      for (const id of ["pvc-1", "pvc-2"]) await repeated(() => rig.open().delete(id, call));
      await repeated(async () => rig.open().groupSnapshots?.delete("snap", [], call));
      expect([plan, await rig.remains()]).toEqual([plan, []]);
    },
  });
});

test("the snapshot of a volume that was set aside exists until it is deleted, also after the file says to set none aside", async () => {
  const rig = await open({});
  const earlier = openZfs({ driver, zfs: aside, folder: rig.fake.folder }, rig.host);
  await rig.write(await earlier.create(volumeOf("pvc-1"), call), "kept");
  await snapshotsOf(earlier).create("snap", "pvc-1", {}, call);
  await earlier.delete("pvc-1", call);
  const now = rig.open();
  expect((await snapshotsOf(now).get("pvc-1@snap", call)).id).toBe("pvc-1@snap");
  for (const of of [undefined, "pvc-1"]) expect(await snapshotIds(now, of)).toEqual(["pvc-1@snap"]);
  expect(await rig.read(await now.create(volumeOf("r", gib, from("pvc-1@snap")), call))).toBe("kept");
  await now.delete("r", call);
  await snapshotsOf(now).delete("pvc-1@snap", call);
  await earlier.health?.look(call);
  expect(await rig.remains()).toEqual([]);
});

import { describe, expect, test } from "bun:test";
import type { Call } from "../../../../lib/core/call.ts";
import { property } from "../../../../lib/drivers/zfs/properties.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../../contract/rig.ts";
import { atEachStep } from "../../../contract/steps.ts";
import { nfsCache, nfsClients } from "../../../fakes/zfs/nfsd.ts";
import { around, dataset, from, type ZfsRig, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const open = perTest((driver: string = "zfs-generic-nfs") =>
  zfsRig({ driver, zfs: { deleteWithDependents: "tombstone" } }),
);

const datasetsIn = (rig: ZfsRig): readonly string[] =>
  rig.fake.with(pools => pools.all().flatMap(({ name }) => (/^tank\/k\/v\/[^@]*$/.test(name) ? [name] : [])));
const tombstonesIn = (rig: ZfsRig): readonly string[] => datasetsIn(rig).filter(name => name.includes("trash"));

/** Makes volume "b", writes to it, takes a snapshot, and deletes it; returns the id of the snapshot. */
async function generation(rig: ZfsRig, snapshot: string, text: string): Promise<string> {
  const driver = rig.open();
  await rig.write(await driver.create(volumeOf("b"), call), text);
  const { id } = await snapshotsOf(driver).create(snapshot, "b", {}, call);
  await driver.delete("b", call);
  return id;
}

async function restored(rig: ZfsRig, id: string): Promise<string | undefined> {
  const volume = await rig.open().create(volumeOf("r", gib, from(id)), call);
  const content = await rig.read(volume);
  await rig.open().delete("r", call);
  return content;
}

/** A call whose warnings are kept. */
function warned(): { readonly own: Call; readonly lines: (readonly [string, object | undefined])[] } {
  const lines: (readonly [string, object | undefined])[] = [];
  const log: Call["log"] = { ...call.log, warn: (text, fields) => void lines.push([text, fields]), with: () => log };
  return { own: { ...call, log }, lines };
}

describe("two deleted volumes of one id", () => {
  test("keep the snapshots of both until each is deleted, and then none of their space", async () => {
    const rig = await open();
    const ids = [await generation(rig, "s1", "first"), await generation(rig, "s2", "second")];
    expect(tombstonesIn(rig)).toHaveLength(2);
    expect(await snapshotIds(rig.open())).toEqual(["b@s1", "b@s2"]);
    expect(await snapshotIds(rig.open(), "b")).toEqual(["b@s1", "b@s2"]);
    for (const id of ids) expect((await snapshotsOf(rig.open()).get(id, call)).id).toBe(id);
    expect([await restored(rig, "b@s1"), await restored(rig, "b@s2")]).toEqual(["first", "second"]);
    for (const id of ids) await snapshotsOf(rig.open()).delete(id, call);
    expect(await rig.remains()).toEqual([]);
  });

  test("never have two snapshots of one name: the second is refused, until the first is deleted", async () => {
    const rig = await open();
    const id = await generation(rig, "s", "first");
    await rig.write(await rig.open().create(volumeOf("b"), call), "second");
    for (const driver of [rig.open(), rig.open()]) {
      const taken = snapshotsOf(driver).create("s", "b", {}, call);
      expect(await codeOf(taken)).toBe("already-exists");
      await expect(taken).rejects.toThrow("which was deleted");
    }
    expect(await restored(rig, id)).toBe("first");
    await snapshotsOf(rig.open()).delete(id, call);
    await snapshotsOf(rig.open()).create("s", "b", {}, call);
    expect(await restored(rig, id)).toBe("second");
  });

  test("with two snapshots of one name, from before, show the newer, and a deletion removes both", async () => {
    const rig = await open();
    const id = await generation(rig, "s", "first");
    const [old = ""] = tombstonesIn(rig);
    rig.fake.with(pools => {
      const thing = pools.find(old);
      if (thing) thing.creation -= 100;
    });
    await generation(rig, "s2", "second");
    const [next = ""] = tombstonesIn(rig).filter(name => name !== old);
    rig.fake.zfs("rename", `${next}@s2`, `${next}@s`);
    rig.fake.zfs("set", "democratic-csi:csi_snapshot_name=s", `${next}@s`);
    expect(await snapshotIds(rig.open(), "b")).toEqual([id]);
    expect(await restored(rig, id)).toBe("second");
    await snapshotsOf(rig.open()).delete(id, call);
    expect(await codeOf(snapshotsOf(rig.open()).get(id, call))).toBe("not-found");
    expect(await rig.remains()).toEqual([]);
  });
});

test("a group snapshot of deleted volumes names them, and goes with their tombstones", async () => {
  const rig = await open();
  const driver = rig.open();
  for (const id of ["v", "w"]) await driver.create(volumeOf(id), call);
  await driver.groupSnapshots?.create("g", ["v", "w"], {}, call);
  for (const id of ["v", "w"]) await driver.delete(id, call);
  expect((await driver.groupSnapshots?.get("g", [], call))?.snapshots.map(({ id }) => id)).toEqual(["v@g", "w@g"]);
  await driver.groupSnapshots?.delete("g", [], call);
  expect(await rig.remains()).toEqual([]);
});

describe("a tombstone that is busy", () => {
  /** A tombstone that nothing needs, and that cannot be destroyed for now. */
  async function stuck() {
    const rig = await open("zfs-local-zvol");
    for (const id of ["c", "d"]) await rig.open().create(volumeOf(id), call);
    const id = await generation(rig, "s", "");
    const [name = ""] = tombstonesIn(rig);
    rig.fake.faults({ owned: { [name]: 9999 } });
    return { rig, id, name };
  }

  test("stops no deletion, and goes with a check of the health; it is logged once", async () => {
    const { rig, id, name } = await stuck();
    const { own, lines } = warned();
    const driver = rig.open();
    const before = performance.now();
    await snapshotsOf(driver).delete(id, own);
    for (const each of ["c", "d", "absent"]) await driver.delete(each, own);
    for (let n = 0; n < 3; n++) expect((await driver.health?.look(own))?.storage).toEqual([]);
    expect(performance.now() - before).toBeLessThan(20_000);
    expect(lines.map(([, fields]) => fields)).toEqual([expect.objectContaining({ dataset: name })]);
    expect(datasetsIn(rig)).toEqual([name]);
    rig.fake.faults({ owned: undefined });
    await driver.health?.look(own);
    expect(await rig.remains()).toEqual([]);
  });

  test.each([0, 10])("costs a deletion nothing, with %p others that are needed", async count => {
    const rig = await open("zfs-local-zvol");
    for (let n = 0; n < count; n++) {
      await rig.open().create(volumeOf(`t${n}`), call);
      await snapshotsOf(rig.open()).create(`s${n}`, `t${n}`, {}, call);
      await rig.open().delete(`t${n}`, call);
    }
    await rig.open().create(volumeOf("x"), call);
    let trips = 0;
    const counted = rig.on(
      around(rig.host, (_, run) => {
        trips++;
        return run();
      }),
    );
    await counted.delete("x", call);
    expect([tombstonesIn(rig).length, trips]).toEqual([count, 2]);
    trips = 0;
    await counted.health?.look(call);
    expect([tombstonesIn(rig).length, trips]).toEqual([count, count > 0 ? 3 : 2]);
  });
});

test("tombstones that were made from each other go with the last of them", async () => {
  const rig = await open();
  const driver = rig.open();
  for (const [id, source] of [["a"], ["b", "a"], ["c", "b"]] as const)
    await driver.create(volumeOf(id, gib, source === undefined ? undefined : from(source)), call);
  for (const id of ["a", "b"]) await driver.delete(id, call);
  expect(tombstonesIn(rig)).toHaveLength(2);
  await driver.delete("c", call);
  expect(await rig.remains()).toEqual([]);
});

describe("a volume in use that something depends on", () => {
  async function used(driver: string) {
    const rig = await open(driver);
    await rig.write(await rig.open().create(volumeOf("a"), call), "content");
    await snapshotsOf(rig.open()).create("s", "a", {}, call);
    const state = () => structuredClone(rig.fake.find(dataset("a")));
    return { rig, state };
  }

  test("stays as it is while an NFS client has a file open", async () => {
    const { rig, state } = await used("zfs-generic-nfs");
    const before = state();
    nfsCache(rig.fake.folder, [rig.fake.place(dataset("a"))]);
    nfsClients(rig.fake.folder, [{ id: 3, open: [rig.fake.place(dataset("a"))] }]);
    const deleted = rig.open().delete("a", call);
    expect(await codeOf(deleted)).toBe("failed-precondition");
    await expect(deleted).rejects.toThrow("NFS clients hold files");
    expect(state()).toEqual(before as never);
    nfsClients(rig.fake.folder, []);
    await rig.open().delete("a", call);
    expect([await volumeIds(rig.open()), await snapshotIds(rig.open())]).toEqual([[], ["a@s"]]);
    const [name = ""] = tombstonesIn(rig);
    expect(rig.fake.find(name)?.own).toMatchObject({
      ...{ sharenfs: { value: "off" }, canmount: { value: "noauto" }, "csimux:tombstone": { value: "a" } },
      "democratic-csi:managed_resource": { value: "false" },
    });
  });

  test.each(["zfs-generic-nfs", "zfs-generic-smb"])(
    "stays as it is while a process of its host uses it, with %s, and can be requested again",
    async driver => {
      const { rig, state } = await used(driver);
      const before = state();
      rig.fake.faults({ busy: { [dataset("a")]: 99 } });
      expect(await codeOf(rig.open().delete("a", call))).toBe("aborted");
      expect(state()).toEqual(before as never);
      rig.fake.faults({ busy: undefined });
      expect((await rig.open().create(volumeOf("a"), call)).id).toBe("a");
      expect(rig.fake.find(dataset("a"))).toMatchObject({ mounted: true, shared: true });
      await rig.open().delete("a", call);
      expect(await volumeIds(rig.open())).toEqual([]);
    },
  );

  test("stays as it is while its node has mounted it", async () => {
    const { rig } = await used("zfs-local-dataset");
    rig.fake.zfs("set", "mountpoint=legacy", dataset("a"));
    rig.fake.with(pools => {
      const thing = pools.find(dataset("a"));
      if (thing) thing.mounted = true;
    });
    expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
    expect(rig.fake.find(dataset("a"))).toBeDefined();
  });
});

test("a deletion that was interrupted after the rename is completed by a check of the health", async () => {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  await snapshotsOf(rig.open()).create("s", "a", {}, call);
  const name = dataset(`csimux-trash-${rig.fake.find(dataset("a"))?.guid}`);
  rig.fake.zfs("set", "csimux:tombstone=a", dataset("a"));
  rig.fake.zfs("rename", dataset("a"), name);
  expect(await volumeIds(rig.open())).toEqual([]);
  expect(await snapshotIds(rig.open())).toEqual(["a@s"]);
  await rig.open().health?.look(call);
  expect(rig.fake.find(name)).toMatchObject({ shared: false, own: { canmount: { value: "noauto" } } });
  await snapshotsOf(rig.open()).delete("a@s", call);
  expect(await rig.remains()).toEqual([]);
});

test("a deletion of a needed volume that is interrupted anywhere leaves a shared volume or its tombstone, and its repeat the latter", async () => {
  const rig = await open();
  const make = async () => {
    await rig.open().create(volumeOf("a"), call);
    await snapshotsOf(rig.open()).create("s", "a", {}, call);
  };
  await make();
  await atEachStep(
    (step, when) => {
      const { driver, dead } = rig.dying(step, when);
      return { work: () => driver.delete("a", call), dead };
    },
    async step => {
      const left = rig.fake.find(dataset("a"));
      if (left) expect([step, left.mounted, left.shared]).toEqual([step, true, true]);
      await rig.open().delete("a", call);
      expect([step, await volumeIds(rig.open()), await snapshotIds(rig.open())]).toEqual([step, [], ["a@s"]]);
      await snapshotsOf(rig.open()).delete("a@s", call);
      expect([step, await rig.remains()]).toEqual([step, []]);
      await make();
    },
  );
});

test("a tombstone that has become another instance's is left to it, also when the last clone of it goes", async () => {
  const rig = await open();
  const driver = rig.open();
  await driver.create(volumeOf("b"), call);
  await driver.create(volumeOf("c", gib, { kind: "volume", id: "b" }), call);
  await driver.delete("b", call);
  const [name = ""] = tombstonesIn(rig);
  rig.fake.zfs("set", `${property.instance}=other`, name);
  await driver.delete("c", call);
  expect(tombstonesIn(rig)).toEqual([name]);
  // Once it is its own again, nothing else keeps it.
  rig.fake.zfs("inherit", property.instance, name);
  await driver.health?.look(call);
  expect(await rig.remains()).toEqual([]);
});

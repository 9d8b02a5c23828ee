import { expect } from "bun:test";
import type { Context, Driver, GroupSnapshotAbility, ModifyAbility } from "../../lib/drivers/driver.ts";
import { codeOf } from "./driver-volumes.ts";
import { type Cases, needing } from "./needs.ts";
import { callWith, type DriverRig, getVolume, gib, snapshotsOf, volumeOf } from "./rig.ts";
import { atEachStep } from "./steps.ts";

const call = callWith();

function groupsOf(driver: Driver): GroupSnapshotAbility {
  if (!driver.groupSnapshots) throw new Error("this driver has no group snapshots; skip the case");
  return driver.groupSnapshots;
}

function modifyOf(driver: Driver): ModifyAbility {
  if (!driver.modify) throw new Error("this driver cannot modify; skip the case");
  return driver.modify;
}

async function twoVolumes(rig: DriverRig): Promise<readonly string[]> {
  const ids: string[] = [];
  for (const name of ["a", "b"]) {
    const volume = await rig.open().create(volumeOf(name), call);
    await rig.write(volume, `content of ${name}`);
    ids.push(volume.id);
  }
  return ids;
}

async function removeAll(rig: DriverRig, volumes: readonly string[]): Promise<void> {
  for (const id of volumes) await rig.open().delete(id, call);
  expect(await rig.remains()).toEqual([]);
}

export const groupCases: Cases = {
  "a group snapshot holds every volume, each usable by itself, and a repeated one is the same": needing(
    "groupSnapshots",
    "snapshots",
    "clones",
  )(async rig => {
    const driver = rig.open();
    const volumes = await twoVolumes(rig);
    const group = await groupsOf(driver).create("group", volumes, {}, call);
    expect(group.snapshots.map(({ volumeId }) => volumeId).sort()).toEqual([...volumes].sort());
    expect(group.snapshots.map(snapshot => snapshot.group)).toEqual([group.id, group.id]);
    const ids = group.snapshots.map(({ id }) => id);
    expect(await groupsOf(rig.open()).create("group", volumes, {}, call)).toEqual(group);
    expect(await groupsOf(rig.open()).get(group.id, ids, call)).toEqual(group);
    for (const { id, volumeId } of group.snapshots) {
      const restored = await driver.create(volumeOf("restored", gib, { kind: "snapshot", id }), call);
      expect(await rig.read(restored)).toBe(`content of ${volumeId === volumes[0] ? "a" : "b"}`);
      await driver.delete(restored.id, call);
    }
    await groupsOf(driver).delete(group.id, ids, call);
    await groupsOf(driver).delete(group.id, ids, call);
    expect(await codeOf(groupsOf(driver).get(group.id, ids, call))).toBe("not-found");
    expect(await codeOf(snapshotsOf(driver).get(ids[0] ?? "", call))).toBe("not-found");
    await removeAll(rig, volumes);
  }),

  "a group snapshot with a volume that is missing is not found, and takes none of the others": needing(
    "groupSnapshots",
  )(async rig => {
    const volumes = await twoVolumes(rig);
    const wanted = groupsOf(rig.open()).create("group", [...volumes, "absent"], {}, call);
    expect(await codeOf(wanted)).toBe("not-found");
    await removeAll(rig, volumes);
  }),

  "a group snapshot's name belongs to its volumes": needing("groupSnapshots")(async rig => {
    const volumes = await twoVolumes(rig);
    await groupsOf(rig.open()).create("group", volumes, {}, call);
    const other = groupsOf(rig.open()).create("group", volumes.slice(1), {}, call);
    expect(await codeOf(other)).toBe("already-exists");
  }),

  "a group snapshot that is interrupted anywhere is finished by its repeat": needing("groupSnapshots")(async rig => {
    const volumes = await twoVolumes(rig);
    await atEachStep(
      (step, when) => {
        const { driver, dead } = rig.dying(step, when);
        return { work: () => groupsOf(driver).create("group", volumes, {}, call), dead };
      },
      async step => {
        const group = await groupsOf(rig.open()).create("group", volumes, {}, call);
        expect([step, group.snapshots.length]).toEqual([step, 2]);
        const ids = group.snapshots.map(({ id }) => id);
        await groupsOf(rig.open()).delete(group.id, ids, call);
      },
    );
    await removeAll(rig, volumes);
  }),

  "properties are changed together or not at all, and may be given at creation": needing(
    "modify",
    "reading",
  )(async rig => {
    const { good, bad } = rig.properties ?? { good: {}, bad: [] };
    expect(bad.length).toBeGreaterThan(0);
    const driver = rig.open();
    const { id } = await driver.create({ ...volumeOf("pvc-1"), mutable: good }, call);
    await modifyOf(driver).modify(id, good, call);
    await modifyOf(driver).modify(id, good, call);
    const before = await getVolume(driver, id);
    for (const wrong of bad) {
      const properties: Context = { ...good, ...wrong };
      expect([wrong, await codeOf(modifyOf(driver).modify(id, properties, call))]).toEqual([wrong, "invalid-argument"]);
      const spec = { ...volumeOf("pvc-2"), mutable: properties };
      expect([wrong, await codeOf(driver.create(spec, call))]).toEqual([wrong, "invalid-argument"]);
    }
    expect(await getVolume(driver, id)).toEqual(before);
    expect(await codeOf(modifyOf(driver).modify("absent", good, call))).toBe("not-found");
    await driver.delete(id, call);
    expect(await rig.remains()).toEqual([]);
  }),
};

import { expect } from "bun:test";
import type { Driver, Source } from "../../lib/drivers/driver.ts";
import type { Kept } from "../../lib/drivers/kept.ts";
import { codeOf } from "./driver-volumes.ts";
import { type Cases, needing } from "./needs.ts";
import { callWith, type DriverRig, gib, snapshotIds, snapshotsOf, volumeOf } from "./rig.ts";

const call = callWith();

/** What is kept, in short, without any change of the storage. */
async function keptOn(rig: DriverRig): Promise<readonly Pick<Kept, "what" | "of" | "neededBy">[]> {
  const before = await rig.state();
  const items = (await rig.open().kept?.list(call)) ?? [];
  expect(await rig.state()).toEqual(before);
  expect(items.filter(({ name, frees }) => name === "" || frees === "")).toEqual([]);
  return items.map(({ what, of, neededBy }) => ({ what, of, neededBy }));
}

const cloned = (driver: Driver, name: string, source: Source) => driver.create(volumeOf(name, gib, source), call);

export const snapshotCases: Cases = {
  "a repeated snapshot is the same one with the same time": needing("snapshots")(async rig => {
    const driver = rig.open();
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    const first = await snapshotsOf(driver).create("snap", id, {}, call);
    expect(first).toMatchObject({ volumeId: id, bytes: gib, ready: true });
    expect(Math.abs(Date.now() - first.createdAt.getTime())).toBeLessThan(60_000);
    expect(await snapshotsOf(rig.open()).create("snap", id, {}, call)).toEqual(first);
    expect(await snapshotsOf(driver).get(first.id, call)).toEqual(first);
    expect(await snapshotIds(driver)).toEqual([first.id]);
  }),

  "a snapshot name belongs to one volume": needing("snapshots")(async rig => {
    const driver = rig.open();
    const a = await driver.create(volumeOf("a"), call);
    const b = await driver.create(volumeOf("b"), call);
    await snapshotsOf(driver).create("snap", a.id, {}, call);
    expect(await codeOf(snapshotsOf(driver).create("snap", b.id, {}, call))).toBe("already-exists");
  }),

  "a snapshot of a missing volume is not found and leaves nothing": needing("snapshots")(async rig => {
    const driver = rig.open();
    for (const id of ["absent", "../x", "..", ""]) {
      expect([id, await codeOf(snapshotsOf(driver).create("snap", id, {}, call))]).toEqual([id, "not-found"]);
    }
    expect(await rig.remains()).toEqual([]);
  }),

  "a volume restored from a snapshot holds what the volume held then": needing(
    "snapshots",
    "clones",
  )(async rig => {
    const driver = rig.open();
    const volume = await driver.create(volumeOf("pvc-1"), call);
    await rig.write(volume, "then");
    const { id } = await snapshotsOf(driver).create("snap", volume.id, {}, call);
    await rig.write(volume, "now");
    const source = { kind: "snapshot", id } as const;
    const restored = await driver.create(volumeOf("restored", gib, source), call);
    expect(restored.source).toEqual(source);
    expect(await rig.read(restored)).toBe("then");
    expect(await codeOf(driver.create(volumeOf("less", gib / 2n, source), call))).toBe("out-of-range");
  }),

  "snapshots survive their volume": needing(
    "snapshots",
    "clones",
    "snapshots survive their volume",
  )(async rig => {
    const driver = rig.open();
    const volume = await driver.create(volumeOf("pvc-1"), call);
    await rig.write(volume, "kept");
    const { id } = await snapshotsOf(driver).create("snap", volume.id, {}, call);
    await driver.delete(volume.id, call);
    const restored = await driver.create(volumeOf("restored", gib, { kind: "snapshot", id }), call);
    expect(await rig.read(restored)).toBe("kept");
    await driver.delete(restored.id, call);
    await snapshotsOf(driver).delete(id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "a volume with snapshots is not deleted before them": needing(
    "snapshots",
    "snapshots hold their volume",
  )(async rig => {
    const driver = rig.open();
    const volume = await driver.create(volumeOf("pvc-1"), call);
    await rig.write(volume, "kept");
    const { id } = await snapshotsOf(driver).create("snap", volume.id, {}, call);
    expect(await codeOf(driver.delete(volume.id, call))).toBe("failed-precondition");
    expect(await rig.read(volume)).toBe("kept");
    await snapshotsOf(driver).delete(id, call);
    await driver.delete(volume.id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "a deleted snapshot is gone and deleting it again succeeds": needing("snapshots")(async rig => {
    const driver = rig.open();
    const volume = await driver.create(volumeOf("pvc-1"), call);
    await rig.write(volume, "content");
    const { id } = await snapshotsOf(driver).create("snap", volume.id, {}, call);
    await snapshotsOf(driver).delete(id, call);
    await snapshotsOf(driver).delete(id, call);
    expect(await codeOf(snapshotsOf(driver).get(id, call))).toBe("not-found");
    expect(await snapshotIds(driver)).toEqual([]);
    await driver.delete(volume.id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "hostile snapshot ids exist nowhere and deleting them touches nothing": needing("snapshots")(async rig => {
    const driver = rig.open();
    const volume = await driver.create(volumeOf("pvc-1"), call);
    await rig.write(volume, "kept");
    const ids = ["reallyfakesnapshotid", "", "..", "../v/pvc-1", "-rf", "a\0-b", "a@b/c", "@", "a@", "@b"];
    for (const id of [...ids, ...rig.hostileSnapshots]) {
      expect([id, await codeOf(snapshotsOf(driver).get(id, call))]).toEqual([id, "not-found"]);
      expect([id, await codeOf(snapshotsOf(driver).delete(id, call))]).toEqual([id, "ok"]);
    }
    expect(await rig.read(volume)).toBe("kept");
  }),

  "snapshots are listed in pages, and by volume": needing("snapshots")(async rig => {
    const driver = rig.open();
    const a = await driver.create(volumeOf("a"), call);
    const b = await driver.create(volumeOf("b"), call);
    for (let n = 0; n < 5; n++) await snapshotsOf(driver).create(`snap-${n}`, n === 3 ? b.id : a.id, {}, call);
    const list = (token: string | undefined, max: number, volumeId?: string) =>
      snapshotsOf(driver).list({ volumeId }, { token, max }, call);
    const first = await list(undefined, 2);
    expect(first.items.length).toBe(2);
    const rest = await list(first.next, 100);
    expect(rest.items.length).toBe(3);
    expect(rest.next).toBeUndefined();
    expect((await list(undefined, 10, b.id)).items.map(({ volumeId }) => volumeId)).toEqual([b.id]);
    expect(await list(undefined, 10, "absent")).toEqual({ items: [], next: undefined });
    expect((await list(undefined, 4, a.id)).next).toBeUndefined();
    expect(await codeOf(list("invalid-token", 3))).toBe("aborted");
  }),

  "snapshot names of 128 bytes and any characters give ids that fit": needing("snapshots")(async rig => {
    const driver = rig.open();
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    for (const name of ["x".repeat(128), "ü".repeat(64), "../..", "a b", "f/x"]) {
      const snapshot = await snapshotsOf(driver).create(name, id, {}, call);
      expect(await snapshotsOf(driver).create(name, id, {}, call)).toEqual(snapshot);
      await snapshotsOf(driver).delete(snapshot.id, call);
    }
    await driver.delete(id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "nothing is kept for volumes and snapshots that nothing else needs": needing(
    "kept",
    "snapshots",
  )(async rig => {
    const { id } = await rig.open().create(volumeOf("pvc-1"), call);
    await snapshotsOf(rig.open()).create("snap", id, {}, call);
    expect(await keptOn(rig)).toEqual([]);
  }),

  "a snapshot is kept for its clone, also after its deletion, and until that is gone": needing(
    "kept",
    "snapshots",
    "clones",
  )(async rig => {
    const driver = rig.open();
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    const snapshot = await snapshotsOf(driver).create("snap", id, {}, call);
    const of = { kind: "snapshot" as const, id: snapshot.id };
    const clone = await cloned(driver, "clone", of);
    const neededBy = [{ kind: "volume" as const, name: clone.id }];
    expect(await keptOn(rig)).toEqual([{ what: "snapshot", of, neededBy }]);
    await snapshotsOf(driver).delete(snapshot.id, call);
    expect(await keptOn(rig)).toEqual([{ what: "deleted-snapshot", of, neededBy }]);
    expect(await codeOf(snapshotsOf(driver).get(snapshot.id, call))).toBe("not-found");
    expect(await snapshotIds(driver)).toEqual([]);
    await driver.delete(clone.id, call);
    expect(await keptOn(rig)).toEqual([]);
    await driver.delete(id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "what a clone of a volume hangs on is named as that": needing(
    "kept",
    "clones",
  )(async rig => {
    const driver = rig.open();
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    const clone = await cloned(driver, "clone", { kind: "volume", id });
    const [of, needing] = [
      { kind: "volume" as const, id: clone.id },
      { kind: "volume" as const, name: clone.id },
    ];
    expect(await keptOn(rig)).toEqual([{ what: "clone-source", of, neededBy: [needing] }]);
    await driver.delete(clone.id, call);
    expect(await keptOn(rig)).toEqual([]);
  }),

  "a deleted volume is kept for its snapshots and for what was cloned from them": needing(
    "kept",
    "snapshots",
    "clones",
    "snapshots survive their volume",
  )(async rig => {
    const driver = rig.open();
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    const snapshot = await snapshotsOf(driver).create("snap", id, {}, call);
    const clone = await cloned(driver, "clone", { kind: "snapshot", id: snapshot.id });
    await driver.delete(id, call);
    const deleted = { what: "deleted-volume" as const, of: { kind: "volume" as const, id } };
    const byClone = { kind: "volume" as const, name: clone.id };
    expect(await keptOn(rig)).toEqual([{ ...deleted, neededBy: [{ kind: "snapshot", name: snapshot.id }, byClone] }]);
    await snapshotsOf(driver).delete(snapshot.id, call);
    expect(await keptOn(rig)).toEqual([{ ...deleted, neededBy: [byClone] }]);
    await driver.delete(clone.id, call);
    expect(await keptOn(rig)).toEqual([]);
  }),
};

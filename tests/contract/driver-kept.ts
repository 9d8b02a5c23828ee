import { expect } from "bun:test";
import type { Driver, Source } from "../../lib/drivers/driver.ts";
import type { Kept } from "../../lib/drivers/kept.ts";
import { type Cases, needing } from "./needs.ts";
import { callWith, type DriverRig, gib, snapshotsOf, volumeOf } from "./rig.ts";

/** What stays on the storage because something needs it: a person sees what that is, and what frees it. */

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

export const keptCases: Cases = {
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
    await driver.delete(clone.id, call);
    expect(await keptOn(rig)).toEqual([]);
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

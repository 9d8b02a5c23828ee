import { expect } from "bun:test";
import type { Driver } from "../../lib/drivers/driver.ts";
import { codeOf } from "./driver-volumes.ts";
import { type Cases, needing } from "./needs.ts";
import { callWith, type DriverRig, getVolume, hostileIds, volumeIds, volumeOf } from "./rig.ts";

/** Looking at volumes and at what people made: nothing on the storage changes, unless marks are asked for. */

const call = callWith();

function adopting(driver: Driver): NonNullable<Driver["adoption"]> {
  if (!driver.adoption) throw new Error("this driver cannot adopt");
  return driver.adoption;
}

/** Two volumes, the second without the marks of one, as if a person had made it. */
async function withHandmade(rig: DriverRig) {
  const own = await rig.open().create(volumeOf("pvc-own"), call);
  const made = await rig.open().create(volumeOf("pvc-made"), call);
  await rig.unmark?.(made);
  return { own, made };
}

export const adoptionCases: Cases = {
  "listing volumes and adopting without marking changes nothing on the storage": needing("inventory")(async rig => {
    const { own, made } = await withHandmade(rig);
    const place = await rig.open().create(volumeOf("pvc-theirs"), call);
    await rig.open().delete(place.id, call);
    await rig.foreign.find(each => each.place === "volume")?.make(place, "snap");
    const before = await rig.state();
    await volumeIds(rig.open());
    for (const object of [own.id, made.id, place.id, "absent", ...hostileIds])
      await codeOf(adopting(rig.open()).adopt(object, false, call));
    expect(await rig.state()).toEqual(before);
  }),

  "a volume is adopted as it is, by its id, and an absent or unfinished one is not": needing("reading")(async rig => {
    const { own } = await withHandmade(rig);
    const before = await rig.state();
    for (const mark of [false, true])
      expect(await adopting(rig.open()).adopt(own.id, mark, call)).toEqual({ ...own, marked: true });
    for (const object of ["absent", ...hostileIds])
      expect([object, await codeOf(adopting(rig.open()).adopt(object, true, call))]).toEqual([
        object,
        expect.stringMatching(/not-found|failed-precondition/),
      ]);
    expect(await rig.state()).toEqual(before);
  }),

  "what a person made is refused or adopted with the context that nodes need; marks make it a volume": needing(
    "reading",
    "inventory",
  )(async rig => {
    const { made } = await withHandmade(rig);
    if (!rig.unmark) return;
    expect(await volumeIds(rig.open())).not.toContain(made.id);
    const adopted = await adopting(rig.open()).adopt(made.id, false, call);
    expect(adopted).toEqual({ ...made, marked: false });
    const remains = await rig.remains();
    expect(await adopting(rig.open()).adopt(made.id, true, call)).toEqual({ ...made, marked: true });
    expect(await rig.remains()).toEqual(remains);
    expect(await getVolume(rig.open(), made.id)).toEqual(made);
    expect(await volumeIds(rig.open())).toContain(made.id);
    await rig.open().delete(made.id, call);
    expect((await rig.remains()).filter(each => each.includes("pvc-made"))).toEqual([]);
  }),
};

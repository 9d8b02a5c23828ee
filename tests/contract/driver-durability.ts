import { expect } from "bun:test";
import type { Driver, Source } from "../../lib/drivers/driver.ts";
import { type Cases, needing } from "./needs.ts";
import {
  callWith,
  type DriverRig,
  getVolume,
  gib,
  leftoverOf,
  snapshotIds,
  snapshotsOf,
  volumeIds,
  volumeOf,
} from "./rig.ts";
import { atEachStep } from "./steps.ts";

/** What a driver has answered is there after a loss of power, and what was interrupted by one can be repeated. */

const call = callWith();

async function afterPowerLoss(rig: DriverRig): Promise<Driver> {
  if (!rig.losePower) throw new Error("this storage answers for its own writes; skip the case");
  await rig.losePower();
  return rig.open();
}

/** Creates a volume again and again, with a loss of power at each step. `content` is what it must hold. */
async function createLosingPower(
  rig: DriverRig,
  source: Source | undefined,
  content: string | undefined,
): Promise<void> {
  const spec = volumeOf("pvc-1", gib, source);
  const ours = async () => (await rig.remains()).filter(each => each.includes("pvc-1"));
  await atEachStep(
    (step, when) => {
      const { driver, dead } = rig.dying(step, when);
      return { work: () => driver.create(spec, call), dead };
    },
    async step => {
      let driver = await afterPowerLoss(rig);
      const found = await driver.names?.find("pvc-1", call);
      expect([step, found !== undefined]).toEqual([step, (await ours()).length > 0]);
      if (found?.kind === "volume") expect([step, await rig.read(found.volume)]).toEqual([step, content]);
      const volume = await driver.create(spec, call);
      driver = await afterPowerLoss(rig);
      expect([step, await rig.read(volume)]).toEqual([step, content]);
      await rig.write(volume, "usable");
      expect([step, await rig.read(volume)]).toEqual([step, "usable"]);
      await driver.delete(volume.id, call);
      driver = await afterPowerLoss(rig);
      expect([step, await ours(), await leftoverOf(driver, "pvc-1")]).toEqual([step, [], undefined]);
    },
  );
}

export const durabilityCases: Cases = {
  "a volume that was made, expanded or deleted is so after a loss of power": needing(
    "loss of power",
    "reading",
    "inventory",
  )(async rig => {
    const made = await rig.open().create(volumeOf("pvc-1"), call);
    let driver = await afterPowerLoss(rig);
    expect(await getVolume(driver, made.id)).toEqual(made);
    expect(await driver.create(volumeOf("pvc-1"), call)).toEqual(made);
    const grown = await driver.expand?.expand(made.id, { required: 2n * gib, limit: undefined }, call);
    driver = await afterPowerLoss(rig);
    expect((await getVolume(driver, made.id)).bytes).toBe(grown?.bytes ?? made.bytes);
    await driver.delete(made.id, call);
    driver = await afterPowerLoss(rig);
    expect([await volumeIds(driver), await rig.remains()]).toEqual([[], []]);
  }),

  "a clone and a snapshot hold their content after a loss of power, and a deleted one is gone": needing(
    "loss of power",
    "snapshots",
    "clones",
  )(async rig => {
    const origin = await rig.open().create(volumeOf("origin"), call);
    await rig.write(origin, "content");
    const source: Source = { kind: "volume", id: origin.id };
    const clone = await rig.open().create(volumeOf("clone", gib, source), call);
    let driver = await afterPowerLoss(rig);
    expect(await rig.read(clone)).toBe("content");
    const { id } = await snapshotsOf(driver).create("snap", origin.id, {}, call);
    driver = await afterPowerLoss(rig);
    expect(await snapshotIds(driver)).toEqual([id]);
    const restored = await driver.create(volumeOf("restored", gib, { kind: "snapshot", id }), call);
    driver = await afterPowerLoss(rig);
    expect(await rig.read(restored)).toBe("content");
    await snapshotsOf(driver).delete(id, call);
    driver = await afterPowerLoss(rig);
    expect(await snapshotIds(driver)).toEqual([]);
    for (const volume of [restored, clone, origin]) await driver.delete(volume.id, call);
    await afterPowerLoss(rig);
    expect(await rig.remains()).toEqual([]);
  }),

  "a create that a loss of power interrupts at any step is finished by its repeat": needing(
    "loss of power",
    "names",
  )(rig => createLosingPower(rig, undefined, undefined)),

  "a clone that a loss of power interrupts at any step is finished by its repeat and never shows half its content":
    needing(
      "loss of power",
      "names",
      "clones",
    )(async rig => {
      const origin = await rig.open().create(volumeOf("origin"), call);
      await rig.write(origin, "content");
      await createLosingPower(rig, { kind: "volume", id: origin.id }, "content");
    }),

  "a delete that a loss of power interrupts at any step is finished by its repeat": needing("loss of power")(
    async rig => {
      const make = async () => {
        const volume = await rig.open().create(volumeOf("pvc-1"), call);
        await rig.write(volume, "content");
        return volume.id;
      };
      let id = await make();
      await atEachStep(
        (step, when) => {
          const { driver, dead } = rig.dying(step, when);
          return { work: () => driver.delete(id, call), dead };
        },
        async step => {
          const driver = await afterPowerLoss(rig);
          await driver.delete(id, call);
          await afterPowerLoss(rig);
          expect([step, await rig.remains()]).toEqual([step, []]);
          id = await make();
        },
      );
    },
  ),
};

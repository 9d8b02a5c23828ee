import { expect, test } from "bun:test";
import { callWith, getVolume, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { on, protocolsOf, remainsOf } from "../rig.ts";

const call = callWith();

test.each(protocolsOf("26.0"))(
  "over %s a beta of 26 that drops the marks of a new dataset gets them again",
  async protocol => {
    await on({ version: "26.0" }, protocol, async (driver, double) => {
      double.beta = true;
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      expect(await driver.create(volumeOf("pvc-1"), call)).toEqual(await getVolume(driver, id));
      const snapshot = await snapshotsOf(driver).create("s", id, { detachedSnapshots: "true" }, call);
      await snapshotsOf(driver).delete(snapshot.id, call);
      await driver.delete(id, call);
      expect(remainsOf(double)).toEqual([]);
    });
  },
);

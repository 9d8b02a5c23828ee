import { expect, test } from "bun:test";
import { callWith, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { dsmRig, openDsm } from "./dsm-rig.ts";
import { folderRig, openFolderDriver } from "./folder-rig.ts";

const systems = [
  ["synology-iscsi", () => dsmRig(), openDsm] as const,
  [
    "synology-nfs",
    () => folderRig("nfs"),
    (dsm: Parameters<typeof openFolderDriver>[0], options = {}) => openFolderDriver(dsm, "nfs", options),
  ] as const,
];

test.each(systems)(
  "two connections on one DSM neither list, adopt nor delete each other's volumes: %s",
  async (_name, open, driverOn) => {
    const rig = await open();
    const call = callWith();
    const drivers = ["c1", "c2"].map(connection => driverOn(rig.dsm, { identity: { connection } }));
    try {
      const made = await Promise.all(drivers.map((driver, index) => driver.create(volumeOf(`own${index}`), call)));
      const same = await Promise.allSettled(drivers.map(driver => driver.create(volumeOf("same"), call)));
      expect(same.filter(({ status }) => status === "fulfilled").length).toBeLessThanOrEqual(1);
      const snapshots = await Promise.all(
        drivers.map((driver, index) => snapshotsOf(driver).create("s", made[index]?.id ?? "", {}, call)),
      );
      const [one, other] = drivers;
      if (!one || !other) throw new Error("there are two");
      const before = await rig.remains();
      // Each gets the deletion of the other's volume.
      await Promise.allSettled([
        one.delete(made[1]?.id ?? "", call),
        other.delete(made[0]?.id ?? "", call),
        snapshotsOf(one).delete(snapshots[1]?.id ?? "", call),
        snapshotsOf(other).delete(snapshots[0]?.id ?? "", call),
      ]);
      expect(await rig.remains()).toEqual(before);
      for (const [index, driver] of drivers.entries()) {
        expect((await volumeIds(driver)).filter(id => id !== "same")).toEqual([made[index]?.id ?? ""]);
        expect(await snapshotIds(driver)).toEqual([snapshots[index]?.id ?? ""]);
      }
    } finally {
      for (const driver of drivers) await driver.close?.();
      await rig.close();
    }
  },
  60_000,
);

import { expect, test } from "bun:test";
import { callWith, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { numberOf, recentVersions } from "../../fakes/truenas/versions.ts";
import { on, parent } from "./rig.ts";

// Up to 25.10 most queries of snapshots read every snapshot of every pool with all properties, which takes minutes on a system with tens
// of thousands of periodic snapshots.

const call = callWith();
const old = recentVersions.filter(version => numberOf(version) < 2600);

test.each(old)("on TrueNAS %s no operation reads the snapshots of other datasets", async version => {
  for (const protocol of ["nfs", "iscsi"] as const) {
    await on({ version }, protocol, async (driver, double) => {
      await driver.create(volumeOf("theirs"), call);
      const { id } = await driver.create(volumeOf("ours"), call);
      const [taken] = [await snapshotsOf(driver).create("first", "theirs", {}, call)];
      const made = double.state.snapshots[`${parent}/${taken?.volumeId ?? "theirs"}@${taken?.id.split("@")[1]}`];
      for (let n = 0; n < 500 && made; n++)
        double.state.snapshots[`${parent}/theirs@auto-${n}`] = { ...made, name: `auto-${n}`, user: {} };
      expect(Object.keys(double.state.snapshots)).toHaveLength(501);
      double.rowsRead = 0;
      const snapshot = await snapshotsOf(driver).create("second", id, {}, call);
      await snapshotsOf(driver).delete(snapshot.id, call);
      await driver.delete(id, call);
      expect(double.rowsRead).toBeLessThan(12);
    });
  }
});

test("a snapshot whose name looks like a number is found over REST", async () => {
  for (const name of ["1e5", "-5", "1.5", "NaN", "[1]", "17"]) {
    await on({ version: "24.10" }, "nfs", async driver => {
      const [a, b] = [await driver.create(volumeOf("a"), call), await driver.create(volumeOf("b"), call)];
      const first = await snapshotsOf(driver).create(name, a.id, {}, call);
      expect((await snapshotsOf(driver).create(name, a.id, {}, call)).id).toBe(first.id);
      const second = snapshotsOf(driver).create(name, b.id, {}, call);
      expect(await second.catch((error: { readonly code?: string }) => error.code)).toBe("already-exists");
    });
  }
});

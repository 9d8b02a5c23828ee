import { expect, test } from "bun:test";
import { callWith, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { recentVersions } from "../../fakes/truenas/versions.ts";
import { on, parent } from "./rig.ts";

const call = callWith();
const many = 2000;

test.each(recentVersions)(
  "on TrueNAS %s, 2,000 volumes and as many snapshots are listed, and creations beside it succeed",
  async version => {
    await on({ version }, "nfs", async (driver, double) => {
      const { id } = await driver.create(volumeOf("first"), call);
      const { id: taken } = await snapshotsOf(driver).create("snapshot", id, {}, call);
      const { datasets, snapshots } = double.state;
      const [volume, snapshot] = [datasets[`${parent}/${id}`], snapshots[`${parent}/${taken}`]];
      if (!volume || !snapshot) throw new Error(`the double has ${Object.keys(snapshots)}`);
      for (let n = 1; n < many; n++) {
        const name = `${parent}/copy-${n}`;
        datasets[name] = { ...volume, name };
        snapshots[`${name}@${snapshot.name}`] = { ...snapshot, dataset: name };
      }
      const page = { max: 10, token: undefined };
      const [listed, shown, health, ...made] = await Promise.all([
        driver.inventory?.list(page, call),
        snapshotsOf(driver).list({ volumeId: undefined }, page, call),
        driver.health?.look(call),
        ...[1, 2, 3].map(n => driver.create(volumeOf(`beside-${n}`), call)),
      ]);
      expect(listed?.items).toHaveLength(10);
      expect(shown.items).toHaveLength(10);
      expect(health?.storage).toEqual([]);
      expect(made).toHaveLength(3);
    });
  },
  120_000,
);

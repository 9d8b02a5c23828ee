import { describe, expect, test } from "bun:test";
import type { Source } from "../../../../lib/drivers/driver.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { numberOf, recentVersions, type Version } from "../../../fakes/truenas/versions.ts";
import { type Opening, parent, refusal, truenasRig } from "../rig.ts";

const call = callWith();
const open = perTest((version: Version, opening: Opening = {}) => truenasRig("nfs", { version }, opening));
const from = (id: string): Source => ({ kind: id.includes("@") ? "snapshot" : "volume", id });
const left = `${parent}/a@volume-source-for-volume-b`;

const versions = [...recentVersions];
const renaming = versions.filter(each => numberOf(each) >= 2510);

async function written(version: Version, opening?: Opening) {
  const rig = await open(version, opening);
  const driver = rig.open();
  const a = await driver.create(volumeOf("a"), call);
  const write = async (text: string) => rig.write(a, text);
  await write("monday");
  return { rig, driver, write };
}

describe("a clone of a volume has the source's state of its own request", () => {
  test.each(renaming)("on TrueNAS %s, although an earlier clone of its name is a tombstone", async version => {
    const { rig, driver, write } = await written(version, { zfs: { deleteWithDependents: "tombstone" } });
    await driver.create(volumeOf("b", gib, from("a")), call);
    const { id } = await snapshotsOf(driver).create("s", "b", {}, call);
    await driver.delete("b", call);
    await write("friday");
    expect(await rig.read(await driver.create(volumeOf("b", gib, from("a")), call))).toBe("friday");
    const r = await driver.create(volumeOf("r", gib, from(id)), call);
    expect(await rig.read(r)).toBe("monday");
    for (const each of ["r", "b"]) await driver.delete(each, call);
    await snapshotsOf(driver).delete(id, call);
    await driver.delete("a", call);
    expect(await rig.remains()).toEqual([]);
  });

  test.each(versions)(
    "on TrueNAS %s, or is refused, although a person has cloned the snapshot of an earlier attempt",
    async version => {
      const { rig, driver, write } = await written(version);
      await driver.create(volumeOf("b", gib, from("a")), call);
      const { datasets } = rig.double.state;
      // As a person keeps it: by another name.
      const kept = datasets[`${parent}/b`];
      if (!kept) throw new Error("it was made");
      delete datasets[`${parent}/b`];
      kept.name = `${parent}/kept`;
      datasets[kept.name] = kept;
      rig.double.state.tables.nfs.splice(0, 2);
      await write("friday");
      const { code, message } = await refusal(driver.create(volumeOf("b", gib, from("a")), call));
      if (numberOf(version) < 2510) {
        expect([code, message]).toEqual(["failed-precondition", expect.stringContaining(left)]);
        expect(datasets[`${parent}/b`]).toBeUndefined();
      } else {
        expect([code, datasets[`${parent}/b`]?.content]).toEqual(["ok", "friday"]);
        expect(kept.origin).toContain("@csimux-deleted-");
      }
    },
  );
});

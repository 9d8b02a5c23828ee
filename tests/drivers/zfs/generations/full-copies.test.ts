import { describe, expect, test } from "bun:test";
import type { Driver, VolumeSpec } from "../../../../lib/drivers/driver.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, findVolume, gib, volumeOf } from "../../../contract/rig.ts";
import { type Meeting, played, repeated } from "../../../contract/second-writer/meeting.ts";
import { from, type ZfsRig, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const open = perTest(zfsRig);
const spec: VolumeSpec = {
  ...volumeOf("pvc-1", gib, from("origin")),
  parameters: { detachedVolumesFromVolumes: "true" },
};
const create = (driver: Driver) => driver.create(spec, call);
const remove = (driver: Driver) => driver.delete("pvc-1", call);

/** A rig with the source, and what it has before the copy. */
async function withOrigin(driver: string) {
  const rig = await open({ driver });
  await rig.write(await rig.open().create(volumeOf("origin"), call), "content");
  return { rig, before: [...(await rig.remains())] };
}

/** Repeats the creation of a volume, whose content it expects, and deletes it. */
async function cleared(rig: ZfsRig, before: readonly string[], met: Meeting, content: string): Promise<void> {
  const about = [met.plan, met.first, met.second];
  await repeated(() => create(rig.open()));
  const volume = await findVolume(rig.open(), "pvc-1");
  expect([...about, volume && (await rig.read(volume))]).toEqual([...about, content]);
  const names = rig.fake.with(pools => pools.all().map(({ name }) => name));
  expect([...about, ...names.filter(each => each.includes("/csimux-recv-"))]).toEqual(about);
  await repeated(() => remove(rig.open()));
  expect([...about, ...(await rig.remains())]).toEqual([...about, ...before]);
}

describe.each(["zfs-generic-nfs", "zfs-local-zvol"])("%s: a full copy", driver => {
  test("that two controllers make at once is whole, and neither's other one, nor its snapshot, is left", async () => {
    const { rig, before } = await withOrigin(driver);
    await played(rig, {
      first: create,
      second: async other => rig.write(await create(other), "of the second"),
      check: met => cleared(rig, before, met, met.second === "ok" ? "of the second" : "content"),
    });
  }, 600_000);

  test("that is deleted while it is made is whole or gone", async () => {
    const { rig, before } = await withOrigin(driver);
    await played(rig, { first: create, second: remove, check: met => cleared(rig, before, met, "content") });
  }, 600_000);
});

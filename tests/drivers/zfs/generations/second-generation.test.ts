import { describe, expect, test } from "bun:test";
import type { VolumeSpec } from "../../../../lib/drivers/driver.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { atEachStep } from "../../../contract/steps.ts";
import { around, dataset, from, type ZfsOptions, type ZfsRig, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const open = perTest((options: ZfsOptions) => zfsRig(options));
const nfs = (more: Partial<ZfsOptions> = {}): ZfsOptions => ({ driver: "zfs-generic-nfs", ...more });
const aside = { zfs: { deleteWithDependents: "tombstone" } };
const copyOf = (id: string, source: string): VolumeSpec => ({
  ...volumeOf(id, gib, from(source)),
  parameters: { detachedVolumesFromVolumes: "true" },
});

/** A volume "a" whose content says when it was written. */
async function written(options: ZfsOptions, text = "monday") {
  const rig = await open(options);
  const a = await rig.open().create(volumeOf("a"), call);
  await rig.write(a, text);
  return { rig, driver: rig.open(), a };
}

const remove = async (rig: ZfsRig, ...ids: readonly string[]) => {
  for (const id of ids) await rig.open().delete(id, call);
};

const ways = [
  ["a clone", (id: string) => volumeOf(id, gib, from("a"))],
  ["a full copy", (id: string) => copyOf(id, "a")],
] as const;

describe.each(ways)("%s of a volume has the source's state of its own request", (_, spec) => {
  // One of the two starts programs, so that a shell runs what is written for one.
  const started = spec("b").parameters["detachedVolumesFromVolumes"] === undefined ? { programs: true as const } : {};

  test("although an earlier clone of its name is a tombstone", async () => {
    const { rig, driver, a } = await written(nfs({ ...aside, ...started }));
    await driver.create(volumeOf("b", gib, from("a")), call);
    const { id } = await snapshotsOf(driver).create("s", "b", {}, call);
    await driver.delete("b", call);
    await rig.write(a, "friday");
    const b = await driver.create(spec("b"), call);
    expect(await rig.read(b)).toBe("friday");
    const r = await driver.create(volumeOf("r", gib, from(id)), call);
    expect(await rig.read(r)).toBe("monday");
    await remove(rig, "r", "b");
    await snapshotsOf(driver).delete(id, call);
    await remove(rig, "a");
    expect(await rig.remains()).toEqual([]);
  });

  test("although a person has kept an earlier clone of its name, whose origin goes with it", async () => {
    const { rig, driver, a } = await written(nfs());
    await driver.create(volumeOf("b", gib, from("a")), call);
    rig.fake.zfs("rename", dataset("b"), dataset("kept"));
    await rig.write(a, "friday");
    expect(await rig.read(await driver.create(spec("b"), call))).toBe("friday");
    await remove(rig, "b");
    rig.fake.zfs("destroy", dataset("kept"));
    await remove(rig, "a");
    expect(await rig.remains()).toEqual([]);
  });

  test("although a person holds the snapshot that an earlier attempt has left", async () => {
    const { rig, driver, a } = await written(nfs());
    const left = `${dataset("a")}@volume-source-for-volume-b`;
    rig.fake.zfs("snapshot", left);
    rig.fake.zfs("hold", "backup", left);
    await rig.write(a, "friday");
    expect(await rig.read(await driver.create(spec("b"), call))).toBe("friday");
    await remove(rig, "b");
    const renamed = rig.fake.with(
      pools => pools.all().find(each => each.name.includes("@csimux-deleted-"))?.name ?? "",
    );
    rig.fake.zfs("release", "backup", renamed);
    await remove(rig, "a");
    expect(await rig.remains()).toEqual([]);
  });

  test("wherever an earlier attempt was interrupted, unless that has made the volume", async () => {
    const { rig, driver, a } = await written(nfs());
    await atEachStep(
      (step, when) => {
        const { driver: mortal, dead } = rig.dying(step, when);
        return { work: () => mortal.create(spec("b"), call), dead };
      },
      async step => {
        const isMade = rig.fake.with(pools => pools.all().some(({ name }) => /\/(?:csimux-recv-)?b$/.test(name)));
        await rig.write(a, "friday");
        const b = await driver.create(spec("b"), call);
        expect([step, await rig.read(b)]).toEqual([step, isMade ? "monday" : "friday"]);
        await driver.delete("b", call);
        expect([step, await rig.remains()]).toEqual([step, [dataset("a")]]);
        await rig.write(a, "monday");
      },
    );
  });
});

test("a clone is refused and nothing is made where the snapshot of an earlier attempt cannot be destroyed", async () => {
  const { rig, driver, a } = await written(nfs());
  const left = `${dataset("a")}@volume-source-for-volume-b`;
  rig.fake.zfs("snapshot", left);
  await rig.write(a, "friday");
  const refusing = around(rig.host, async (whole, run) => {
    const [first, ...rest] = whole.steps.filter(({ name }) => name !== "free");
    if (rest.length === whole.steps.length - 1 || !first) return run();
    const busy = { stdout: "", stderr: `cannot destroy snapshot ${left}: dataset is busy\n`, exitCode: 1 };
    return new Map([["free", busy], ...(await run({ ...whole, steps: [first, ...rest] }))]);
  });
  const made = rig.on(refusing).create(volumeOf("b", gib, from("a")), call);
  expect(await codeOf(made)).toBe("aborted");
  await expect(made).rejects.toThrow("busy");
  expect(rig.fake.find(dataset("b"))).toBeUndefined();
  expect(await rig.read(await driver.create(volumeOf("b", gib, from("a")), call))).toBe("friday");
});

test("a detached snapshot has its volume's state of its own request, wherever an earlier attempt was interrupted before its copy began", async () => {
  const { rig, driver, a } = await written(nfs());
  const take = (on: typeof driver) => snapshotsOf(on).create("s", "a", { detachedSnapshots: "true" }, call);
  await atEachStep(
    (step, when) => {
      const { driver: mortal, dead } = rig.dying(step, when);
      return { work: () => take(mortal), dead };
    },
    async step => {
      const isMade = rig.fake.with(pools => pools.all().some(({ name }) => /csimux-recv-|k\/s\/a\/s$/.test(name)));
      await rig.write(a, "friday");
      const { id } = await take(driver);
      const r = await driver.create(volumeOf("r", gib, { kind: "snapshot", id }), call);
      expect([step, await rig.read(r)]).toEqual([step, isMade ? "monday" : "friday"]);
      await driver.delete("r", call);
      await snapshotsOf(driver).delete(id, call);
      expect([step, await rig.remains()]).toEqual([step, [dataset("a")]]);
      await rig.write(a, "monday");
    },
  );
});

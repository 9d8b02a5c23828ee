import { expect, test } from "bun:test";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, getVolume, gib, volumeOf } from "../../contract/rig.ts";
import { atEachStep } from "../../contract/steps.ts";
import { openZfs, type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const open = perTest(() =>
  zfsRig({ driver: "zfs-generic-nfs", zfs: { datasetEnableQuotas: true, datasetEnableReservation: true } }),
);
const larger = { required: 5n * gib, limit: undefined };
const dataset = "tank/k/v/a";
const sizesOf = (rig: ZfsRig) =>
  ["refquota", "refreservation"].map(name => BigInt(rig.fake.find(dataset)?.own[name]?.value ?? 0) / gib);

test("an expansion that cannot be reserved changes nothing, and its repeat reserves it", async () => {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  rig.fake.zfs("create", "-o", `refreservation=${1021n * gib}`, "tank/other");
  const expanded = () => rig.open().expand?.expand("a", larger, call) ?? Promise.reject(new Error("it can expand"));
  expect(await codeOf(expanded())).toBe("resource-exhausted");
  expect(sizesOf(rig)).toEqual([1n, 1n]);
  expect(await codeOf(expanded())).toBe("resource-exhausted");
  rig.fake.zfs("destroy", "tank/other");
  expect((await expanded()).bytes).toBe(larger.required);
  expect(sizesOf(rig)).toEqual([5n, 5n]);
});

test("an expansion that was interrupted anywhere is repeated until its size is reserved, too", async () => {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  let size = gib;
  await atEachStep(
    (step, when) => {
      const { driver, dead } = rig.dying(step, when);
      size += gib;
      const wanted = { required: size, limit: undefined };
      return { work: () => driver.expand?.expand("a", wanted, call) ?? Promise.resolve(), dead };
    },
    async step => {
      await rig.open().expand?.expand("a", { required: size, limit: undefined }, call);
      expect([step, ...sizesOf(rig)]).toEqual([step, size / gib, size / gib]);
    },
  );
});

test("a volume of which less than its size is reserved, from before, is reserved by a repeated expansion", async () => {
  const rig = await open();
  await rig.open().create(volumeOf("a"), call);
  rig.fake.zfs("set", `refquota=${larger.required}`, dataset);
  await rig.open().expand?.expand("a", larger, call);
  expect(sizesOf(rig)).toEqual([5n, 5n]);
  expect((await getVolume(rig.open(), "a")).bytes).toBe(larger.required);
  // One that was made without a reservation stays as it is.
  rig.fake.zfs("set", "refreservation=0", dataset);
  await rig.open().expand?.expand("a", larger, call);
  expect(sizesOf(rig)).toEqual([5n, 0n]);
});

const withQuotas = perTest((driver: string) => zfsRig({ driver }));

test.each(["zfs-generic-nfs", "zfs-generic-smb", "zfs-local-dataset"])(
  "without datasetEnableQuotas, the quota that a volume got with it grows, and others get none, with %s",
  async driver => {
    const rig = await withQuotas(driver);
    await rig.open().create(volumeOf("a"), call);
    const later = openZfs({ driver, folder: rig.fake.folder, zfs: { datasetEnableQuotas: false } }, rig.host);
    await later.create(volumeOf("b"), call);
    const quotas = [];
    for (const id of ["a", "b"]) {
      expect(await later.expand?.expand(id, larger, call)).toEqual({ bytes: larger.required, onNode: false });
      quotas.push(rig.fake.find(`tank/k/v/${id}`)?.own["refquota"]?.value);
    }
    expect(quotas).toEqual([String(larger.required), undefined]);
    expect((await getVolume(later, "a")).bytes).toBe(larger.required);
  },
);

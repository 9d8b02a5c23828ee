import { describe, expect, test } from "bun:test";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const open = perTest(() => zfsRig({ driver: "zfs-generic-nfs" }));
const parents = { volumes: "tank/k/v", snapshots: "tank/k/s" };

/** Encrypts a dataset, and what inherits from it. */
function encrypt(rig: ZfsRig, dataset: string): void {
  rig.fake.with(pools => {
    const thing = pools.find(dataset);
    if (thing) thing.own["encryption"] = { value: "aes-256-gcm", source: "local" };
  });
}

/** A volume "a", with a snapshot, below parents that exist. */
async function made() {
  const rig = await open();
  rig.fake.zfs("create", "-p", parents.snapshots);
  const driver = rig.open();
  await driver.create(volumeOf("a"), call);
  const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
  const from = (kind: "volume" | "snapshot", more: object) => ({
    ...volumeOf(`from-${kind}`, gib, { kind, id: kind === "volume" ? "a" : id }),
    parameters: { ...more },
  });
  return { rig, driver, from };
}

const kinds = ["volume", "snapshot"] as const;
const ways = [
  ["a clone", {}],
  ["a full copy", { detachedVolumesFromVolumes: "true", detachedVolumesFromSnapshots: "true" }],
] as const;
const encrypted = { "zfs.encryption": "aes-256-gcm" };

describe.each(ways)("%s", (_, way) => {
  test.each(kinds)(
    "of a %s that is not encrypted is refused for a class with encryption, and made of one that is",
    async kind => {
      const { rig, driver, from } = await made();
      const before = await rig.remains();
      const refused = driver.create(from(kind, { ...way, ...encrypted }), call);
      expect(await codeOf(refused)).toBe("failed-precondition");
      await expect(refused).rejects.toThrow("the class asks for encryption");
      expect(await rig.remains()).toEqual(before);
      encrypt(rig, parents.volumes);
      expect((await driver.create(from(kind, { ...way, ...encrypted }), call)).id).toBe(`from-${kind}`);
    },
  );
});

describe("what is encrypted", () => {
  test.each(kinds)("is not copied from a %s to where it would not be", async kind => {
    const { rig, driver, from } = await made();
    encrypt(rig, "tank/k/v/a");
    const before = await rig.remains();
    const refused = driver.create(from(kind, ways[1][1]), call);
    expect(await codeOf(refused)).toBe("failed-precondition");
    await expect(refused).rejects.toThrow("tank/k/v/a is encrypted");
    expect(await rig.remains()).toEqual(before);
    expect((await driver.create(from(kind, {}), call)).id).toBe(`from-${kind}`);
  });

  test("does not become a detached snapshot where that would not be", async () => {
    const { rig, driver } = await made();
    encrypt(rig, parents.volumes);
    const before = await rig.remains();
    const take = () => snapshotsOf(driver).create("d", "a", { detachedSnapshots: "true" }, call);
    expect(await codeOf(take())).toBe("failed-precondition");
    expect(await rig.remains()).toEqual(before);
    encrypt(rig, parents.snapshots);
    expect((await take()).id).toBe("a/d");
  });
});

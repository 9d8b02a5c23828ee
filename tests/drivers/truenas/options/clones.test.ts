import { describe, expect, test } from "bun:test";
import { callWith, gib, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import type { Double } from "../../../fakes/truenas/double.ts";
import { recentVersions } from "../../../fakes/truenas/versions.ts";
import { on, parent } from "../rig.ts";

// A clone inherits its properties from the dataset above it, not from its origin.

const call = callWith();

const lists = (double: Double, id: string) => {
  const { acltype, aclmode } = double.state.datasets[`${parent}/${id}`]?.native ?? {};
  return { acltype, aclmode };
};

describe.each(recentVersions)("on TrueNAS %s", version => {
  test.each([
    ["thin", {}],
    ["full", { detachedVolumesFromVolumes: "true", detachedVolumesFromSnapshots: "true" }],
  ])("a %s copy keeps its access control lists as its source does", async (_, parameters) => {
    await on({ version }, "nfs", async (driver, double) => {
      const chosen = { "zfs.acltype": "nfsv4", "zfs.aclmode": "passthrough" };
      const { id } = await driver.create({ ...volumeOf("a"), parameters: chosen }, call);
      const snapshot = await snapshotsOf(driver).create("s", id, {}, call);
      await driver.create({ ...volumeOf("b", gib, { kind: "volume", id }), parameters }, call);
      await driver.create({ ...volumeOf("c", gib, { kind: "snapshot", id: snapshot.id }), parameters }, call);
      const wanted = { acltype: "nfsv4", aclmode: "passthrough" };
      expect([id, "b", "c"].map(each => lists(double, each))).toEqual([wanted, wanted, wanted]);
    });
  });

  test("a clone of a volume takes the same NFSv4 entries as its source", async () => {
    const zfs = {
      datasetProperties: { acltype: "nfsv4", aclmode: "passthrough" },
      datasetPermissionsAcls: ["-m everyone@:full_set:fd:allow"],
    };
    await on(
      { version },
      "nfs",
      async (driver, double) => {
        const { id } = await driver.create(volumeOf("a"), call);
        await driver.create(volumeOf("b", gib, { kind: "volume", id }), call);
        const acls = [id, "b"].map(each => double.state.datasets[`${parent}/${each}`]?.acl);
        expect(acls[1]).toEqual(acls[0]);
      },
      { zfs },
    );
  });

  test.each([{}, { detachedVolumesFromSnapshots: "true" }])(
    "a volume for SMB that is restored below a dataset for other uses has NFSv4 lists: %j",
    async parameters => {
      await on({ version }, "smb", async (driver, double) => {
        const { id } = await driver.create(volumeOf("a"), call);
        const { id: detached } = await snapshotsOf(driver).create("s", id, { detachedSnapshots: "true" }, call);
        const { id: attached } = await snapshotsOf(driver).create("t", id, {}, call);
        for (const [name, source] of [
          ["b", detached],
          ["c", attached],
        ] as const)
          await driver.create({ ...volumeOf(name, gib, { kind: "snapshot", id: source }), parameters }, call);
        const wanted = { acltype: "nfsv4", aclmode: "restricted" };
        expect([id, "b", "c"].map(each => lists(double, each))).toEqual([wanted, wanted, wanted]);
      });
    },
  );
});

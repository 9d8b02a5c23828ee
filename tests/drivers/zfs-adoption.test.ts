import { expect, test } from "bun:test";
import type { AdoptedVolume, Driver } from "../../lib/drivers/driver.ts";
import { callWith } from "../contract/rig.ts";
import { type ZfsRig, zfsRig } from "./zfs/zfs-rig.ts";

const call = callWith();

const adopt = async (driver: Driver, object: string, mark = false): Promise<AdoptedVolume | string> => {
  try {
    return (await driver.adoption?.adopt(object, mark, call)) ?? "no ability";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
};

async function on(driver: string, work: (rig: ZfsRig) => Promise<void>): Promise<void> {
  const rig = await zfsRig({ driver });
  try {
    rig.fake.zfs("create", "-p", "tank/k/v");
    await work(rig);
  } finally {
    await rig.close();
  }
}

const managed = "democratic-csi:managed_resource=true";

test("a dataset is adopted by its whole name, and marking it sets user properties only", () =>
  on("zfs-local-dataset", async ({ fake, open }) => {
    fake.zfs("create", "-o", "compression=lz4", "-o", "my:own=x", "tank/k/v/photos");
    expect(await adopt(open(), "tank/k/v/photos")).toMatchObject({ id: "photos", marked: false });
    const before = fake.find("tank/k/v/photos");
    expect(await adopt(open(), "tank/k/v/photos", true)).toMatchObject({ id: "photos", marked: true });
    const after = fake.find("tank/k/v/photos");
    const kept = Object.entries(after?.own ?? {}).filter(([key]) => !key.startsWith("democratic-csi:"));
    expect({ ...after, own: Object.fromEntries(kept) }).toEqual({ ...before } as never);
    expect(after?.own["democratic-csi:provision_success"]?.value).toBe("true");
  }));

test.each([
  ["of another driver", ["-o", managed, "-o", "democratic-csi:volume_context_provisioner_driver=zfs-generic-iscsi"]],
  ["of another instance", ["-o", managed, "-o", "democratic-csi:volume_context_provisioner_instance_id=other"]],
  ["of another instance alone", ["-o", "democratic-csi:volume_context_provisioner_instance_id=other"]],
  ["of a deleted volume", ["-o", "csimux:tombstone=pvc-1"]],
])("a dataset with the marks %s is refused and stays as it is", (_, options) =>
  on("zfs-local-dataset", async ({ fake, open, state }) => {
    fake.zfs("create", ...options, "tank/k/v/photos");
    const before = await state();
    for (const mark of [false, true])
      expect(await adopt(open(), "photos", mark)).toMatch(/belongs to|is a deleted volume/);
    expect(await state()).toEqual(before);
  }),
);

test("a dataset below a volume, a zvol, and one that is not below the parent are refused", () =>
  on("zfs-local-dataset", async ({ fake, open }) => {
    fake.zfs("create", "-s", "-V", "1G", "tank/k/v/zvol");
    fake.zfs("create", "tank/k/other");
    expect(await adopt(open(), "zvol", true)).toContain("tank/k/v/zvol is a volume");
    expect(await adopt(open(), "tank/k/other", true)).toContain("is not where this connection has its volumes");
    fake.zfs("create", "tank/k/v/photos");
    fake.zfs("set", managed, "tank/k/v");
    expect(await adopt(open(), "photos", true)).toMatch(/no mark of csimux/);
  }));

test("a file system that the server does not share, and a zvol behind a target made by hand, are refused", async () => {
  await on("zfs-generic-nfs", async ({ fake, open }) => {
    fake.zfs("create", "-o", "sharenfs=off", "tank/k/v/photos");
    expect(await adopt(open(), "photos", true)).toContain("sharenfs of tank/k/v/photos is off; correct that first");
  });
  await on("zfs-generic-iscsi", async ({ fake, open }) => {
    fake.zfs("create", "-s", "-V", "1G", "tank/k/v/zvol");
    expect(await adopt(open(), "zvol", true)).toContain("this driver cannot find a target that a person made");
  });
});

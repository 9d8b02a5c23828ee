import { expect, test } from "bun:test";
import type { AdoptedVolume, Driver } from "../../lib/drivers/driver.ts";
import { callWith, volumeOf } from "../contract/rig.ts";
import type { Double } from "../fakes/truenas/double.ts";
import { type Protocol, truenasRig } from "./truenas/rig.ts";
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

/** A volume of TrueNAS without marks, after a change of what leads to it. */
async function onTrueNas(protocol: Protocol, change: (double: Double) => void): Promise<AdoptedVolume | string> {
  const rig = await truenasRig(protocol, { version: "25.10" });
  try {
    const volume = await rig.open().create(volumeOf("pvc-1"), call);
    await rig.unmark?.(volume);
    change(rig.double);
    const before = await rig.state();
    const answer = await adopt(rig.open(), volume.id, true);
    expect([answer, await rig.state()]).toEqual([answer, before]);
    return answer;
  } finally {
    await rig.close();
  }
}

test.each<[Protocol, string, (tables: Double["state"]["tables"]) => void, string]>([
  [
    "nfs",
    "a disabled share",
    ({ nfs }) => nfs.map(row => Object.assign(row, { enabled: false })),
    "no enabled NFS share for",
  ],
  ["smb", "no share", ({ smb }) => smb.splice(0), "no enabled SMB share for"],
  ["iscsi", "an extent without a target", ({ targetextent }) => targetextent.splice(0), "no iSCSI target with zvol/"],
  [
    "iscsi",
    "a target with another extent, too",
    ({ targetextent: [link], targetextent: all }) => all.push({ ...link, id: 99, extent: 77, lunid: 1 }),
    "exists already, for several extents",
  ],
  ["nvmeof", "no namespace", ({ nvmetNamespace }) => nvmetNamespace.splice(0), "no NVMe subsystem with a namespace on"],
])("a dataset of TrueNAS behind %s with %s is refused and stays as it is", async (protocol, _, change, text) => {
  expect(await onTrueNas(protocol, ({ state }) => void change(state.tables))).toContain(text);
});

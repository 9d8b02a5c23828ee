import { expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { driverContract } from "../../contract/driver.ts";
import { callWith, gib, volumeOf } from "../../contract/rig.ts";
import { numberOf, versions } from "../../fakes/truenas/versions.ts";
import { drawn } from "../../sample.ts";
import { refusal } from "./rig.ts";
import { sshRig } from "./ssh-rig.ts";

const lacks = {
  "loss of power": "ZFS answers when its transaction group is on stable storage",
  "snapshots hold their volume": "a volume that is still needed is set aside",
} as const;

/** Versions differ in how a volume is shared and resized. */
const pairs = (["nfs", "smb", "iscsi", "nvmeof"] as const).flatMap(protocol =>
  versions.filter(each => protocol !== "nvmeof" || numberOf(each) >= 2510).map(version => ({ protocol, version })),
);

// Both kinds of this store have their contracts in the tests of ZFS, and every share in those of the API.
for (const { protocol, version } of drawn(pairs, 1)) {
  const title = `truenas-${protocol} with ZFS over ssh on TrueNAS ${version}`;
  driverContract(title, () => sshRig(protocol, version), lacks);
}

test("TrueNAS resizes block devices, to announce the size to initiators; file systems are resized over ssh", async () => {
  for (const protocol of ["iscsi", "nfs"] as const) {
    const { double, open, close } = await sshRig(protocol, "25.10");
    const driver = open();
    const { id } = await driver.create(volumeOf("pvc-1"), callWith());
    double.requests.length = 0;
    const grown = await driver.expand?.expand(id, { required: 2n * gib, limit: undefined }, callWith());
    expect(grown).toEqual({ bytes: 2n * gib, onNode: protocol === "iscsi" });
    const change = { method: "pool.dataset.update", params: [`tank/k/v/${id}`, { volsize: Number(2n * gib) }] };
    expect(double.requests).toMatchObject(protocol === "iscsi" ? [change] : []);
    await close();
  }
});

test("a dataset without the properties of a volume is never used as one, however empty, and stays unchanged", async () => {
  for (const protocol of ["iscsi", "nfs"] as const) {
    const { fake, open, close } = await sshRig(protocol, "25.10");
    const driver = open();
    await driver.create(volumeOf("pvc-1"), callWith());
    for (const name of ["tank/k/v/pvc-2", "tank/k/v/pvc-3"]) {
      fake.zfs("create", ...(protocol === "iscsi" ? ["-s", "-V", String(gib)] : []), name);
      mkdirSync(fake.place(name), { recursive: true });
    }
    fake.zfs("snapshot", "tank/k/v/pvc-3@theirs");
    for (const name of ["pvc-2", "pvc-3"]) {
      expect(await refusal(driver.create(volumeOf(name), callWith()))).toMatchObject({ code: "already-exists" });
      expect(await refusal(driver.delete(name, callWith()))).not.toMatchObject({ code: "ok" });
      expect(fake.zfs("list", "-H", "-o", "name", `tank/k/v/${name}`)).toContain(name);
    }
    await close();
  }
});

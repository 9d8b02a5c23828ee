import { expect, test } from "bun:test";
import { driverContract } from "../../contract/driver.ts";
import { callWith, gib, volumeOf } from "../../contract/rig.ts";
import { numberOf, versions } from "../../fakes/truenas/versions.ts";
import { drawn } from "../../sample.ts";
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

import { expect, test } from "bun:test";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, getVolume, volumeOf } from "../../../contract/rig.ts";
import type { Double } from "../../../fakes/truenas/double.ts";
import { on, openOn, type Protocol, parent } from "../rig.ts";

// A volume that was sent with its properties (zfs send -R) below another dataset of one system, which is a connection, too.

const call = callWith();
const below = { datasetParentName: "tank/k8s/b", detachedSnapshotsDatasetParentName: "tank/k8s/bs" };
const second = (double: Double, protocol: Protocol) => openOn(double, protocol, { zfs: below, connection: "c2" });

/** The dataset "pvc-1" of the second connection, with the properties of that of the first. */
async function send(double: Double, protocol: Protocol): Promise<void> {
  await second(double, protocol).create(volumeOf("pvc-1"), call);
  const [from, to] = [parent, below.datasetParentName].map(each => double.state.datasets[`${each}/pvc-1`]);
  if (from && to) to.user = { ...from.user };
}

test.each(["25.04", "25.10"] as const)("%s: no answer about the copy names the share of its original", version =>
  on({ version }, "nfs", async (driver, double) => {
    const original = await driver.create(volumeOf("pvc-1"), call);
    await send(double, "nfs");
    const copy = second(double, "nfs");
    const share = "/mnt/tank/k8s/b/pvc-1";
    expect((await getVolume(copy, "pvc-1")).context).toMatchObject({ share });
    expect((await copy.create(volumeOf("pvc-1"), call)).context).toMatchObject({ share });
    expect(await getVolume(driver, "pvc-1")).toEqual(original);
    await copy.close?.();
  }),
);

test.each(["iscsi", "nvmeof"] as const)("what leads to a volume over %s is not printed for its copy", protocol =>
  on({ version: "25.10" }, protocol, async (driver, double) => {
    await driver.create(volumeOf("pvc-1"), call);
    await send(double, protocol);
    const copy = second(double, protocol);
    expect(await codeOf(copy.adoption?.adopt("pvc-1", false, call) ?? Promise.resolve())).toBe("failed-precondition");
    expect(await codeOf(driver.adoption?.adopt("pvc-1", false, call) ?? Promise.resolve())).toBe("ok");
    await copy.close?.();
  }),
);

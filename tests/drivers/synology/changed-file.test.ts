import { describe, expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import type { Dsm } from "../../fakes/dsm/double.ts";
import { type DsmRig, dsmRig, openDsm } from "./dsm-rig.ts";
import { folderRig, openFolderDriver } from "./folder-rig.ts";

const call = callWith();
const claim = "pvc-8c1f4f5e-43a0-4c55-9d0e-0b1d4f3a2c11";
const opened = perTest((open: () => Promise<DsmRig>) => open());

/** How rigs are opened, and the connection whose file has other names by now. */
type System = readonly [title: string, open: () => Promise<DsmRig>, later: (dsm: Dsm) => Driver];

const systems: readonly System[] = [
  ["namePrefix of LUNs", () => dsmRig(), dsm => openDsm(dsm, { iscsi: { namePrefix: "new-" } })],
  ["nameSuffix of LUNs", () => dsmRig(), dsm => openDsm(dsm, { iscsi: { nameSuffix: "-y" } })],
  ["shared folders", () => folderRig("nfs"), dsm => openFolderDriver(dsm, "nfs", { folders: { namePrefix: "new-" } })],
  [
    "shared folders with a longer prefix",
    () => folderRig("nfs"),
    dsm => openFolderDriver(dsm, "nfs", { folders: { namePrefix: "longer1-" } }),
  ],
];

describe.each(systems)("with another file for %s", (_, open, laterOn) => {
  test("a volume and a snapshot from before are not reported as deleted until they are", async () => {
    const rig = await opened(open);
    const driver = rig.open();
    const later = laterOn(rig.dsm);
    try {
      const volumes = [await driver.create(volumeOf(claim), call)];
      const [{ id: origin } = { id: "" }] = volumes;
      volumes.push(await driver.create(volumeOf(claim.replace("8c", "9d"), gib, { kind: "volume", id: origin }), call));
      const snapshot = await snapshotsOf(driver).create("s", origin, {}, call);
      const before = await rig.remains();
      for (const { id } of volumes) expect(await codeOf(later.delete(id, call))).toBe("failed-precondition");
      expect(await codeOf(snapshotsOf(later).delete(snapshot.id, call))).toBe("failed-precondition");
      expect(await rig.remains()).toEqual(before);
      await snapshotsOf(driver).delete(snapshot.id, call);
      for (const each of [driver, later]) for (const { id } of volumes) await each.delete(id, call);
      expect(await rig.remains()).toEqual([]);
    } finally {
      await later.close?.();
    }
  });
});

test("a volume whose LUN has the name of another one by the file without prefix and suffix is not reported as deleted", async () => {
  const rig = await opened(() => dsmRig());
  await rig.open().create(volumeOf(claim), call);
  const later = openDsm(rig.dsm, { iscsi: { namePrefix: "", nameSuffix: "" } });
  try {
    expect(await codeOf(later.delete(claim, call))).toBe("failed-precondition");
    await rig.open().delete(claim, call);
    await later.delete(claim, call);
  } finally {
    await later.close?.();
  }
});

test("with another base IQN, a volume from before keeps its target, which is deleted with it", async () => {
  const rig = await opened(() => dsmRig());
  const made = await rig.open().create(volumeOf(claim), call);
  const later = openDsm(rig.dsm, { iscsi: { baseiqn: "iqn.2001-01.org.example:other." } });
  try {
    expect((await later.create(volumeOf(claim), call)).context).toEqual(made.context);
    await later.delete(claim, call);
    expect(await rig.remains()).toEqual([]);
  } finally {
    await later.close?.();
  }
});

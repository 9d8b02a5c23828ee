import { describe, expect, test } from "bun:test";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, getVolume, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { sides } from "../../contract/steps.ts";
import type { Dsm } from "../../fakes/dsm/double.ts";
import type { Lun } from "../../fakes/dsm/state.ts";
import { type DsmOptions, dsmRig } from "./dsm-rig.ts";
import { legacyVolume } from "./handmade.ts";

const call = callWith();
const opened = perTest(dsmRig);
async function rigOf(options: DsmOptions = {}) {
  const rig = await opened(options);
  return { rig, dsm: rig.dsm, driver: rig.open() };
}

/** What a request was sent with. */
const sent = (dsm: Dsm, api: string, method: string) =>
  dsm.requests.filter(each => each.api.endsWith(api) && each.method === method).map(({ params }) => params);

const uuid = "0d6f8c0e-7f3a-4a53-9d0b-1c2d3e4f5a6b";

function legacySnapshot(dsm: Dsm, lun: Lun, takenBy = "democratic-csi"): void {
  const taken = { uuid, lun: lun.uuid, name: "", description: "snap-old", takenBy, size: lun.size, locked: true };
  dsm.state.snapshots.set(uuid, { ...taken, time: 1_700_000_000, content: lun.content });
}

describe("volumes of democratic-csi", () => {
  test("are read, listed, expanded and deleted", async () => {
    const { driver, rig, dsm } = await rigOf();
    legacyVolume(dsm);
    const volume = await getVolume(driver, "pvc-old");
    expect(volume.context).toMatchObject({ iqn: "iqn.2000-01.com.synology:Csi.k8s-pvc-old-x", lun: "1" });
    expect(await volumeIds(driver)).toEqual(["pvc-old"]);
    expect(await driver.create(volumeOf("pvc-old"), call)).toEqual(volume);
    expect(await driver.expand?.expand("pvc-old", { required: 2n * gib, limit: undefined }, call)).toMatchObject({
      bytes: 2n * gib,
    });
    await driver.delete("pvc-old", call);
    expect(await rig.remains()).toEqual([]);
  });

  test("with capital letters in their ids are found, because DSM's names are lower case", async () => {
    const { driver, rig, dsm } = await rigOf();
    legacyVolume(dsm, "k8s-pvc-abc-x");
    expect((await getVolume(driver, "PVC-abc")).id).toBe("PVC-abc");
    await driver.delete("PVC-abc", call);
    expect(await rig.remains()).toEqual([]);
  });

  test.each(sides)("are deleted completely after an interruption %s any request", async when => {
    for (let step = 1; step < 30; step++) {
      const { rig, dsm, driver } = await rigOf();
      legacyVolume(dsm);
      const dying = rig.dying(step, when);
      const outcome = await codeOf(dying.driver.delete("pvc-old", call));
      await driver.delete("pvc-old", call);
      expect([step, await rig.remains()]).toEqual([step, []]);
      if (outcome === "ok" && !dying.dead()) return;
    }
    throw new Error("it never got through");
  });

  test("keep their snapshots, by the LUN's UUID and by its number", async () => {
    const { driver, dsm } = await rigOf();
    const lun = legacyVolume(dsm);
    legacySnapshot(dsm, lun);
    for (const id of [`/lun/${lun.uuid}/${uuid}`, `/lun/${lun.lunId}/${uuid}`]) {
      const snapshot = await snapshotsOf(driver).get(id, call);
      expect(snapshot).toMatchObject({ id, volumeId: "pvc-old", bytes: gib, createdAt: new Date(1_700_000_000_000) });
      const name = `from-${id.length}`;
      const restored = await driver.create(volumeOf(name, gib, { kind: "snapshot", id }), call);
      expect(restored.source).toEqual({ kind: "snapshot", id });
    }
    expect(await snapshotIds(driver)).toEqual([`/lun/${lun.uuid}/${uuid}`]);
    await snapshotsOf(driver).delete(`/lun/${lun.lunId}/${uuid}`, call);
    expect(dsm.state.snapshots.size).toBe(0);
  });
});

describe("a snapshot", () => {
  test("of a LUN that is no longer mapped to its target, and so no volume, is not reported as deleted", async () => {
    const { driver, dsm } = await rigOf();
    const lun = legacyVolume(dsm);
    legacySnapshot(dsm, lun);
    const [target] = dsm.state.targets.values();
    const mapped = target?.mapped ?? [];
    if (target) target.mapped = [];
    for (const named of [lun.uuid, lun.lunId])
      expect(await codeOf(snapshotsOf(driver).delete(`/lun/${named}/${uuid}`, call))).toBe("failed-precondition");
    if (target) target.mapped = mapped;
    await snapshotsOf(driver).delete(`/lun/${lun.uuid}/${uuid}`, call);
    expect(dsm.state.snapshots.size).toBe(0);
  });

  test("costs the same number of requests with many LUNs as with few", async () => {
    const { driver, dsm } = await rigOf();
    const requests = async (name: string) => {
      const before = dsm.requests.length;
      await snapshotsOf(driver).create(name, "pvc-0", {}, call);
      return dsm.requests.length - before;
    };
    await driver.create(volumeOf("pvc-0"), call);
    const few = await requests("snap-1");
    for (let n = 1; n < 20; n++) await driver.create(volumeOf(`pvc-${n}`), call);
    expect(await requests("snap-2")).toBe(few);
    expect(few).toBeLessThanOrEqual(4);
  });

  test("is taken by the templates of file and class", async () => {
    const { driver, dsm } = await rigOf({
      iscsi: { lunSnapshotTemplate: { is_locked: true, is_app_consistent: true } },
    });
    await driver.create(volumeOf("pvc-1"), call);
    await snapshotsOf(driver).create("snap", "pvc-1", { lunSnapshotTemplate: "is_app_consistent: false" }, call);
    expect(sent(dsm, "LUN", "take_snapshot")).toMatchObject([
      { is_locked: true, is_app_consistent: false, description: "snap", taken_by: "csimux:c1" },
    ]);
  });

  test("of DSM's schedule can be restored by its id, is neither listed nor deleted, and does not keep its volume from being deleted", async () => {
    const { driver, dsm } = await rigOf();
    const lun = legacyVolume(dsm);
    legacySnapshot(dsm, lun, "user");
    const id = `/lun/${lun.uuid}/${uuid}`;
    expect(await snapshotIds(driver)).toEqual([]);
    expect((await snapshotsOf(driver).get(id, call)).volumeId).toBe("pvc-old");
    expect(await codeOf(snapshotsOf(driver).delete(id, call))).toBe("failed-precondition");
    await driver.delete("pvc-old", call);
    expect(dsm.state.luns.size).toBe(0);
  });

  test("has an id with the LUN's number if its UUID would make the id too long", async () => {
    const { driver, dsm } = await rigOf({ identity: { maxIdBytes: 62 } });
    await driver.create(volumeOf("pvc-1"), call);
    const snapshot = await snapshotsOf(driver).create("snap", "pvc-1", {}, call);
    expect(snapshot.id).toStartWith("/lun/1/");
    expect(await snapshotsOf(driver).get(snapshot.id, call)).toEqual(snapshot);
    expect(dsm.state.snapshots.size).toBe(1);
  });

  test("is refused if the LUN has its maximum number of snapshots", async () => {
    const { driver, dsm } = await rigOf();
    await driver.create(volumeOf("pvc-1"), call);
    dsm.state.habits.maxSnapshots = 0;
    expect(await codeOf(snapshotsOf(driver).create("snap", "pvc-1", {}, call))).toBe("resource-exhausted");
  });
});

describe("a target", () => {
  test("of a recreated volume has a new name, unknown to nodes of the deleted volume, and keeps it", async () => {
    const { driver, dsm } = await rigOf();
    const first = await driver.create(volumeOf("pvc-1"), call);
    await driver.delete("pvc-1", call);
    const second = await driver.create(volumeOf("pvc-1"), call);
    expect(second.context["iqn"]).not.toBe(first.context["iqn"]);
    expect(await driver.create(volumeOf("pvc-1"), call)).toEqual(second);
    expect(dsm.state.targets.size).toBe(1);
  });

  test("left by an interrupted call is recreated with the current credentials", async () => {
    const { driver, dsm } = await rigOf();
    await driver.create(volumeOf("pvc-1"), call);
    const [lun] = dsm.state.luns.values();
    const [left] = dsm.state.targets.values();
    if (!lun || !left) throw new Error("no volume");
    lun.name = `${lun.name}.new`;
    left.mapped = [];
    const secrets = { targetTemplate: "{user: node, password: chapsecret12}" };
    await driver.create(volumeOf("pvc-1"), { ...call, secrets });
    expect([...dsm.state.targets.values()].map(each => each.options["auth_type"])).toEqual([1]);
  });

  test("with CHAP is not made again without it, when the deletion of its volume fails", async () => {
    const { driver, dsm } = await rigOf();
    const secrets = { targetTemplate: "{user: node, password: chapsecret12}" };
    await driver.create(volumeOf("pvc-1"), { ...call, secrets });
    for (const method of ["set", "delete"]) {
      dsm.answers.set(`SYNO.Core.ISCSI.LUN ${method}`, [18990002]);
      await expect(driver.delete("pvc-1", call)).rejects.toThrow();
      expect([...dsm.state.targets.values()].filter(each => each.options["auth_type"] !== 1)).toEqual([]);
    }
    await driver.delete("pvc-1", call);
    expect([dsm.state.targets.size, dsm.state.luns.size]).toEqual([0, 0]);
  });
});

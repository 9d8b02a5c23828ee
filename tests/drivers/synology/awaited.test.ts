import { expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { used } from "../../contract/needs.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, getVolume, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import type { Dsm } from "../../fakes/dsm/double.ts";
import { dsmRig, openDsm } from "./dsm-rig.ts";

const call = callWith();
const opened = perTest(dsmRig);
async function rigOf(version: 6 | 7 = 7) {
  const rig = await opened({ version });
  return { rig, dsm: rig.dsm, driver: rig.open() };
}

test("a LUN has no snapshots if DSM's answer has no list of them", async () => {
  const { driver, dsm } = await rigOf(6);
  const { id } = await driver.create(volumeOf("pvc-1"), call);
  expect(await snapshotIds(driver, id)).toEqual([]);
  expect(dsm.count("list_snapshot")).toBeGreaterThan(0);
  const taken = await snapshotsOf(driver).create("snap", id, {}, call);
  expect(await snapshotIds(driver, id)).toEqual([taken.id]);
  await snapshotsOf(driver).delete(taken.id, call);
  await driver.delete(id, call);
});

/** Cases that wait for DSM until csimux gives up wait together. */
const waiting = (title: string, run: (driver: Driver, dsm: Dsm) => Promise<void>): void =>
  test.concurrent(title, () => used(dsmRig, rig => run(rig.open(), rig.dsm)), 30_000);

waiting(
  "a clone that DSM locks for long is aborted in time, delays no other call, and is finished by the retry",
  async (driver, dsm) => {
    const { state } = dsm;
    const { id } = await driver.create(volumeOf("origin"), call);
    state.habits.cloneLocked = 1_000_000;
    const spec = volumeOf("clone", 2n * gib, { kind: "volume", id });
    const first = codeOf(driver.create(spec, call));
    expect((await driver.create(volumeOf("meanwhile"), call)).id).toBe("meanwhile");
    expect(await first).toBe("aborted");
    expect(await volumeIds(driver)).toEqual(["meanwhile", "origin"]);
    for (const lun of state.luns.values()) lun.locked = 0;
    expect(await driver.create(spec, call)).toMatchObject({ id: "clone", bytes: 2n * gib });
    expect(dsm.count("clone")).toBe(1);
  },
);

waiting(
  "a deletion is aborted while DSM still lists the LUN, and the retry continues; meanwhile the name is free",
  async (driver, { state }) => {
    await driver.create(volumeOf("pvc-1"), call);
    state.habits.deletion = 1000;
    expect(await codeOf(driver.delete("pvc-1", call))).toBe("aborted");
    expect(await codeOf(getVolume(driver, "pvc-1"))).toBe("not-found");
    const volume = await driver.create(volumeOf("pvc-1"), call);
    expect(state.luns.size).toBe(2);
    for (const lun of state.luns.values()) if (lun.dying !== undefined) lun.dying = 0;
    expect(await getVolume(driver, "pvc-1")).toEqual(volume);
    state.habits.deletion = 0;
    await driver.delete("pvc-1", call);
    expect(state.luns.size).toBe(0);
  },
);

test("a LUN that DSM lists some time after its creation is waited for, and created once", async () => {
  const { driver, dsm, rig } = await rigOf();
  dsm.state.habits.createHidden = 2;
  expect(await driver.create(volumeOf("pvc-1"), call)).toMatchObject({ id: "pvc-1", bytes: gib });
  expect(dsm.count("create")).toBe(2);
  await driver.delete("pvc-1", call);
  expect(await rig.remains()).toEqual([]);
});

test("the free space of a volume of DSM does not count for another volume", async () => {
  const { dsm } = await rigOf();
  dsm.state.others.set("/volume2", 3 * 2 ** 30);
  const driver = openDsm(dsm, { synology: { volume: "volume2" } });
  try {
    expect(await driver.capacity?.available({}, call)).toBe(3n * gib);
    expect(await codeOf(driver.create(volumeOf("large", 4n * gib), call))).toBe("resource-exhausted");
    const { id } = await driver.create(volumeOf("small", 2n * gib), call);
    expect([...dsm.state.luns.values()].map(({ location }) => location)).toEqual(["/volume2"]);
    const larger = { required: 6n * gib, limit: undefined };
    expect(await codeOf(driver.expand?.expand(id, larger, call) ?? Promise.resolve())).toBe("resource-exhausted");
    await driver.delete(id, call);
    expect(dsm.state.remains()).toEqual([]);
  } finally {
    await driver.close?.();
  }
});

import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { dsmFindings } from "../../../lib/drivers/synology/rows.ts";
import { callWith, reasonsOf, volumeOf } from "../../contract/rig.ts";
import { type Dsm, startDsm } from "../../fakes/dsm/double.ts";
import { openDsm } from "./dsm-rig.ts";

const call = callWith();
let dsm: Dsm;
let driver: Driver;
beforeEach(async () => {
  dsm = await startDsm();
  driver = openDsm(dsm);
});
afterEach(async () => {
  await driver.close?.();
  await dsm.close();
});

test("a LUN without a target is reported until it is mapped again", async () => {
  const { id } = await driver.create(volumeOf("pvc-1"), call);
  await driver.create(volumeOf("pvc-2"), call);
  expect(await reasonsOf(driver)).toEqual({});
  const target = [...dsm.state.targets.values()].find(({ name, iqn }) => `${name} ${iqn}`.includes("pvc-1"));
  if (!target) throw new Error("there is no target");
  const { mapped } = target;
  target.mapped = [];
  expect(await reasonsOf(driver)).toEqual({ [id]: ["TargetMissing"] });
  target.mapped = mapped;
  expect(await reasonsOf(driver)).toEqual({});
});

test("a full volume of DSM is reported for the whole storage", async () => {
  await driver.create(volumeOf("pvc-1"), call);
  const { free } = dsm.state;
  dsm.state.free = 0;
  expect(await reasonsOf(driver)).toEqual({ storage: ["StorageFull"] });
  dsm.state.free = free;
  expect(await reasonsOf(driver)).toEqual({});
});

test.each([
  ["normal", []],
  ["", []],
  ["background", []],
  ["degrade", ["PoolDegraded"]],
  ["crashed", ["PoolFaulted"]],
  ["read_only", ["StorageReadOnly"]],
])("a volume that DSM calls %p", (status, reasons) => {
  expect(dsmFindings("/volume1", { free: 1n, status }).map(({ reason }) => reason)).toEqual(reasons as never);
});

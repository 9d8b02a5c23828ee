import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { dsmFindings } from "../../../lib/drivers/synology/rows.ts";
import { callWith, volumeOf } from "../../contract/rig.ts";
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

/** What is wrong with the storage, and with each volume. */
async function look(): Promise<Readonly<Record<string, readonly string[]>>> {
  const found = await driver.health?.look(call);
  const entries = [["storage", found?.storage ?? []] as const, ...(found?.volumes ?? [])];
  return Object.fromEntries(
    entries.flatMap(([id, all]) => (all.length > 0 ? [[id, all.map(({ reason }) => reason)]] : [])),
  );
}

test("a LUN without a target is reported until it is mapped again", async () => {
  const { id } = await driver.create(volumeOf("pvc-1"), call);
  await driver.create(volumeOf("pvc-2"), call);
  expect(await look()).toEqual({});
  const target = [...dsm.state.targets.values()].find(({ name, iqn }) => `${name} ${iqn}`.includes("pvc-1"));
  if (!target) throw new Error("there is no target");
  const { mapped } = target;
  target.mapped = [];
  expect(await look()).toEqual({ [id]: ["TargetMissing"] });
  target.mapped = mapped;
  expect(await look()).toEqual({});
});

test("a full volume of DSM is reported for the whole storage", async () => {
  await driver.create(volumeOf("pvc-1"), call);
  const { free } = dsm.state;
  dsm.state.free = 0;
  expect(await look()).toEqual({ storage: ["StorageFull"] });
  dsm.state.free = free;
  expect(await look()).toEqual({});
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

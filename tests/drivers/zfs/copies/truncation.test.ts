import { afterAll, afterEach, beforeAll, expect, setSystemTime, test } from "bun:test";
import type { Driver, Source } from "../../../../lib/drivers/driver.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { expectTruthful, type Operation, type SpoiledRig } from "../../../contract/spoiled-answers.ts";
import { effortOf, type Printed } from "../../../contract/spoiled-programs.ts";
import { seed } from "../../../sample.ts";
import { spoiledZfs } from "../spoiled-rig.ts";
import type { ZfsOptions } from "../zfs-rig.ts";
import { copyOf, copySource, copyTarget, held, joined, streamsOf, targetOf } from "./copy-rig.ts";

// Answers of zfs to everything that copies do, spoiled in every method. Source and target are one connection here.

const rigs: SpoiledRig<Printed>[] = [];
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

// A snapshot notes its second.
beforeAll(() => void setSystemTime(new Date("2026-11-23T07:00:00Z")));
afterAll(() => void setSystemTime());

const call = callWith();
const volume: Source = { kind: "volume", id: "v" };
const target = targetOf("c");
const spec = copyOf("c", volume, gib);
const made = (driver: Driver) => driver.create(volumeOf("v"), call);

const snapshot = async (driver: Driver, source: Source = volume) => {
  const { toSend: _estimate, proof: _guid, ...rest } = await copySource(driver).protect(source, target, 0, call);
  return rest;
};

async function begun(driver: Driver) {
  await made(driver);
  const first = await copySource(driver).protect(volume, target, 0, call);
  await copyTarget(driver).begin(spec, first, "record", call);
  return first;
}

async function received(driver: Driver) {
  const first = await begun(driver);
  const { source, target: to } = streamsOf(driver, driver);
  await joined(source.open(first, { kind: "whole" }, false), to.open("c", first, false));
}

const landed = async (driver: Driver) => {
  const { id, bytes, context } = await copyTarget(driver).finish(
    "c",
    spec,
    await copySource(driver).protect(volume, target, 0, call),
    held,
    call,
  );
  return { id, bytes, context };
};

const snapped = async (driver: Driver): Promise<Source> => {
  await made(driver);
  return { kind: "snapshot", id: (await snapshotsOf(driver).create("s", "v", {}, call)).id };
};

const ofCopies: Readonly<Record<string, Operation>> = {
  "take a snapshot": { needs: [], before: made, run: snapshot },
  "find a snapshot": { needs: [], before: async driver => [await made(driver), await snapshot(driver)], run: snapshot },
  "protect a snapshot": {
    needs: [],
    before: snapped,
    run: driver => snapshot(driver, { kind: "snapshot", id: "v@s" }),
  },
  release: {
    needs: [],
    before: async driver => [await made(driver), await snapshot(driver)],
    run: driver => copySource(driver).release(target, undefined, call),
  },
  "release a snapshot": {
    needs: [],
    before: async driver => snapshot(driver, await snapped(driver)),
    run: driver => copySource(driver).release(target, undefined, call),
  },
  "delete a volume that is copied": {
    needs: [],
    before: async driver => [await made(driver), await snapshot(driver)],
    run: driver => driver.delete("v", call),
  },
  begin: { needs: [], run: async driver => ({ ...(await begun(driver)), toSend: 0n, proof: "" }) },
  note: { needs: [], before: begun, run: driver => copyTarget(driver).note("c", "another", call) },
  "list copies": { needs: [], before: begun, run: driver => copyTarget(driver).copies(call) },
  state: { needs: [], before: received, run: driver => streamsOf(driver, driver).target.state("c", call) },
  finish: { needs: [], before: received, run: landed },
  "finish what is landed": {
    needs: [],
    before: async driver => [await received(driver), await landed(driver)],
    run: landed,
  },
  drop: { needs: [], before: received, run: driver => copyTarget(driver).drop("c", call) },
  forget: {
    needs: [],
    before: async driver => [await received(driver), await landed(driver)],
    run: driver => copyTarget(driver).forget("c", call),
  },
};

const methods: readonly ZfsOptions[] = [{ driver: "zfs-generic-nfs" }, { driver: "zfs-generic-iscsi" }];

test.each(
  methods.flatMap(options =>
    Object.entries(ofCopies).map(([title, operation]) => [options.driver, title, options, operation] as const),
  ),
)(
  `%s never says that it did, when it did not: %s; and it destroys nothing more, however an answer is spoiled (seed ${seed})`,
  async (_, title, options, operation) => {
    const rig = await spoiledZfs(options);
    rigs.push(rig);
    expect(await expectTruthful(rig, title, { ...effortOf(6), operation })).toBeGreaterThan(0);
  },
  3_600_000,
);

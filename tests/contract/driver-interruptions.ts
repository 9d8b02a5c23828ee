import { expect } from "bun:test";
import type { Driver, Source } from "../../lib/drivers/driver.ts";
import { type Cases, needing } from "./needs.ts";
import {
  callWith,
  type DriverRig,
  findVolume,
  getVolume,
  gib,
  leftoverOf,
  snapshotIds,
  snapshotsOf,
  volumeIds,
  volumeOf,
} from "./rig.ts";
import * as steps from "./steps.ts";

const call = callWith();

/** As atEachStep of steps.ts, with a driver that dies; `check` gets a new one. */
const atEachStep = (
  rig: DriverRig,
  operation: (driver: Driver) => Promise<unknown>,
  check: (driver: Driver, step: string) => Promise<void>,
): Promise<void> =>
  steps.atEachStep(
    (step, when) => {
      const { driver, dead } = rig.dying(step, when);
      return { work: () => operation(driver), dead };
    },
    step => check(rig.open(), step),
  );

/** Origin volume with content and a snapshot of it, to make others from. */
async function prepared(rig: DriverRig): Promise<Readonly<Record<"volume" | "snapshot", Source>>> {
  const driver = rig.open();
  const volume = await driver.create(volumeOf("origin"), call);
  await rig.write(volume, "content");
  const snapshot = await snapshotsOf(driver).create("origin-snap", volume.id, {}, call);
  return { volume: { kind: "volume", id: volume.id }, snapshot: { kind: "snapshot", id: snapshot.id } };
}

async function createInterrupted(rig: DriverRig, source: Source | undefined): Promise<void> {
  const others = new Set(await volumeIds(rig.open()));
  const spec = volumeOf("pvc-1", gib, source);
  const content = source && "content";
  await atEachStep(
    rig,
    driver => driver.create(spec, call),
    async (driver, step) => {
      const early = await findVolume(driver, "pvc-1");
      if (early) expect([step, await rig.read(early)]).toEqual([step, content]);
      const volume = await driver.create(spec, call);
      expect([step, await rig.read(volume), volume.bytes]).toEqual([step, content, gib]);
      expect((await volumeIds(driver)).filter(id => !others.has(id))).toEqual([volume.id]);
      await driver.delete(volume.id, call);
    },
  );
}

async function createGivenUp(rig: DriverRig, source: Source | undefined): Promise<void> {
  const { id } = await rig.open().create(volumeOf("pvc-1"), call);
  await rig.open().delete(id, call);
  await atEachStep(
    rig,
    driver => driver.create(volumeOf("pvc-1", gib, source), call),
    async (driver, step) => {
      await driver.delete(id, call);
      // A storage system may still be copying, and show the copy only later; the next step removes it.
      if (!source) expect([step, await rig.remains()]).toEqual([step, []]);
    },
  );
}

async function deleteOrigin(rig: DriverRig, sources: Readonly<Record<"volume" | "snapshot", Source>>): Promise<void> {
  await snapshotsOf(rig.open()).delete(sources.snapshot.id, call);
  await rig.open().delete(sources.volume.id, call);
  expect(await rig.remains()).toEqual([]);
}

export const interruptionCases: Cases = {
  "a create that is interrupted anywhere is finished by its repeat": needing(
    "names",
    "inventory",
  )(async rig => {
    await createInterrupted(rig, undefined);
    expect(await rig.remains()).toEqual([]);
  }),

  "a clone that is interrupted anywhere is finished by its repeat and never shows half its content": needing(
    "snapshots",
    "clones",
    "names",
    "inventory",
  )(async rig => {
    const sources = await prepared(rig);
    await createInterrupted(rig, sources.volume);
    await deleteOrigin(rig, sources);
  }),

  "a restore that is interrupted anywhere is finished by its repeat and never shows half its content": needing(
    "snapshots",
    "clones",
    "names",
    "inventory",
  )(async rig => {
    const sources = await prepared(rig);
    await createInterrupted(rig, sources.snapshot);
    await deleteOrigin(rig, sources);
  }),

  "a create that is interrupted anywhere can be given up by a delete": needing()(rig => createGivenUp(rig, undefined)),

  "a clone that is interrupted anywhere can be given up by a delete": needing(
    "snapshots",
    "clones",
  )(async rig => {
    const sources = await prepared(rig);
    await createGivenUp(rig, sources.volume);
    await deleteOrigin(rig, sources);
  }),

  "what an interrupted create left is reported, and deleting it leaves nothing": needing("names")(async rig => {
    await atEachStep(
      rig,
      driver => driver.create(volumeOf("pvc-1"), call),
      async (driver, step) => {
        const id = (await leftoverOf(driver, "pvc-1")) ?? (await findVolume(driver, "pvc-1"))?.id;
        const files = (await rig.remains()).filter(path => path.includes("pvc-1"));
        expect([step, id !== undefined]).toEqual([step, files.length > 0]);
        if (id !== undefined) await driver.delete(id, call);
        expect([step, (await rig.remains()).filter(path => path.includes("pvc-1"))]).toEqual([step, []]);
        expect(await leftoverOf(driver, "pvc-1")).toBeUndefined();
      },
    );
  }),

  "a delete that is interrupted anywhere is finished by its repeat": needing()(async rig => {
    const make = async () => {
      const volume = await rig.open().create(volumeOf("pvc-1"), call);
      await rig.write(volume, "content");
      return volume.id;
    };
    let id = await make();
    await atEachStep(
      rig,
      driver => driver.delete(id, call),
      async (driver, step) => {
        await driver.delete(id, call);
        expect([step, await rig.remains()]).toEqual([step, []]);
        id = await make();
      },
    );
  }),

  "a name whose delete was interrupted anywhere can be used again, empty": needing("names")(async rig => {
    const spec = volumeOf("pvc-1");
    const refill = async () => rig.write(await rig.open().create(spec, call), "old");
    const { id } = await rig.open().create(spec, call);
    await refill();
    await atEachStep(
      rig,
      driver => driver.delete(id, call),
      async (driver, step) => {
        const before = await findVolume(driver, "pvc-1");
        const volume = await driver.create(spec, call);
        expect([step, await rig.read(volume)]).toEqual([step, before && "old"]);
        await driver.delete(id, call);
        expect([step, await rig.remains()]).toEqual([step, []]);
        await refill();
      },
    );
  }),

  "a snapshot that is interrupted anywhere is finished by its repeat and never half-made": needing(
    "snapshots",
    "clones",
  )(async rig => {
    const sources = await prepared(rig);
    const others = new Set(await snapshotIds(rig.open()));
    const snap = (driver: Driver) => snapshotsOf(driver).create("snap", sources.volume.id, {}, call);
    await atEachStep(rig, snap, async (driver, step) => {
      const { id } = await snap(driver);
      expect((await snapshotIds(driver)).filter(other => !others.has(other))).toEqual([id]);
      const restored = await driver.create(volumeOf("restored", gib, { kind: "snapshot", id }), call);
      expect([step, await rig.read(restored)]).toEqual([step, "content"]);
      await driver.delete(restored.id, call);
      await snapshotsOf(driver).delete(id, call);
    });
    await deleteOrigin(rig, sources);
  }),

  "a snapshot's delete that is interrupted anywhere is finished by its repeat": needing(
    "snapshots",
    "clones",
  )(async rig => {
    const sources = await prepared(rig);
    const snap = async () => (await snapshotsOf(rig.open()).create("snap", sources.volume.id, {}, call)).id;
    const before = await rig.remains();
    let id = await snap();
    await atEachStep(
      rig,
      driver => snapshotsOf(driver).delete(id, call),
      async (driver, step) => {
        await snapshotsOf(driver).delete(id, call);
        expect([step, await rig.remains()]).toEqual([step, before]);
        id = await snap();
      },
    );
  }),

  "an expansion that is interrupted anywhere leaves the old size or the new": needing(
    "expand",
    "reading",
  )(async rig => {
    const { id } = await rig.open().create(volumeOf("pvc-1"), call);
    let size = gib;
    await atEachStep(
      rig,
      driver => driver.expand?.expand(id, { required: size + gib, limit: undefined }, call) ?? Promise.resolve(),
      async (driver, step) => {
        const { bytes } = await getVolume(driver, id);
        expect([step, bytes === size || bytes === size + gib]).toEqual([step, true]);
        size = bytes;
      },
    );
  }),
};

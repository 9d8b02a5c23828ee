import { expect } from "bun:test";
import { CsiError, isFinal } from "../../lib/core/errors.ts";
import type { Driver, Source } from "../../lib/drivers/driver.ts";
import { type Cases, needing } from "./needs.ts";
import { callWith, type DriverRig, failing, getVolume, gib, snapshotIds, snapshotsOf, volumeOf } from "./rig.ts";

/** Each step of an operation fails once, mostly for want of room: the storage lives on, and knows that it did nothing. */

const call = callWith();
const manySteps = 200;

/** The codes that say it: there is no room, or what is left of the call needs a repeat. */
const codes = /^(?:resource-exhausted|unavailable|aborted)$/;

/** What an operation of a driver came to. */
type Result<T> = { readonly value: T; readonly error?: undefined } | { readonly error: CsiError };

async function resultOf<T>(step: number, work: Promise<T>): Promise<Result<T>> {
  try {
    return { value: await work };
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    expect([step, error.code, error.message]).toEqual([step, expect.stringMatching(codes), error.message]);
    return { error };
  }
}

/**
 * Runs an operation with its first step failing, its second, and so on until no step is left to fail; `check` gets what it came to and
 * leaves the storage as the operation finds it.
 */
async function failingEachStep<T>(
  rig: DriverRig,
  operation: (driver: Driver) => Promise<T>,
  check: (result: Result<T>, step: string) => Promise<void>,
): Promise<void> {
  for (let step = 1; ; step++) {
    expect(step).toBeLessThan(manySteps);
    const { driver, failed } = failing(rig, step);
    const result = await resultOf(step, operation(driver));
    await check(result, `step ${step}`);
    if (failed()) continue;
    expect([step, result.error?.message]).toEqual([step, undefined]);
    // A driver without steps would pass everything.
    expect(step).toBeGreaterThan(1);
    return;
  }
}

/** Makes and deletes a volume with each step of its creation failing. `before` is on the storage already. */
async function createFailing(rig: DriverRig, source: Source | undefined): Promise<void> {
  const before = await rig.remains();
  const spec = volumeOf("pvc-1", gib, source);
  const whole = await rig.open().create(spec, call);
  // Names of targets follow from the volume, which is another one each time.
  const standing = (await rig.remains()).length;
  await rig.open().delete(whole.id, call);
  expect(await rig.remains()).toEqual(before);
  await failingEachStep(
    rig,
    driver => driver.create(spec, call),
    async ({ error }, step) => {
      if (error && isFinal(error))
        expect([step, error.message, await rig.remains()]).toEqual([step, error.message, before]);
      if (!error) expect([step, (await rig.remains()).length]).toEqual([step, standing]);
      const volume = await rig.open().create(spec, call);
      expect([step, volume.bytes, await rig.read(volume)]).toEqual([step, whole.bytes, source && "content"]);
      expect([step, (await rig.remains()).length]).toEqual([step, standing]);
      await rig.open().delete(volume.id, call);
      expect([step, await rig.remains()]).toEqual([step, before]);
    },
  );
}

async function origin(rig: DriverRig): Promise<Source> {
  const volume = await rig.open().create(volumeOf("origin"), call);
  await rig.write(volume, "content");
  return { kind: "volume", id: volume.id };
}

export const failureCases: Cases = {
  "a create of which a step fails says so, leaves nothing where that is final, and is finished by its repeat":
    needing()(rig => createFailing(rig, undefined)),

  "a clone of which a step fails says so, leaves nothing where that is final, and is finished by its repeat": needing(
    "clones",
  )(async rig => createFailing(rig, await origin(rig))),

  "a delete of which a step fails says so while anything is left, and is finished by its repeat": needing()(
    async rig => {
      const make = async () => {
        const volume = await rig.open().create(volumeOf("pvc-1"), call);
        await rig.write(volume, "content");
        return volume.id;
      };
      let id = await make();
      await failingEachStep(
        rig,
        driver => driver.delete(id, call),
        async ({ error }, step) => {
          if (!error) expect([step, await rig.remains()]).toEqual([step, []]);
          await rig.open().delete(id, call);
          expect([step, await rig.remains()]).toEqual([step, []]);
          id = await make();
        },
      );
    },
  ),

  "a snapshot of which a step fails says so, leaves nothing where that is final, and is finished by its repeat":
    needing("snapshots")(async rig => {
      const { id: volume } = await origin(rig);
      const before = await rig.remains();
      await failingEachStep(
        rig,
        driver => snapshotsOf(driver).create("snap", volume, {}, call),
        async ({ error }, step) => {
          if (error && isFinal(error)) expect([step, await rig.remains()]).toEqual([step, before]);
          const { id } = await snapshotsOf(rig.open()).create("snap", volume, {}, call);
          expect([step, await snapshotIds(rig.open())]).toEqual([step, [id]]);
          await snapshotsOf(rig.open()).delete(id, call);
          expect([step, await rig.remains()]).toEqual([step, before]);
        },
      );
    }),

  "a snapshot's delete of which a step fails says so while anything is left, and is finished by its repeat": needing(
    "snapshots",
  )(async rig => {
    const { id: volume } = await origin(rig);
    const before = await rig.remains();
    const snap = async () => (await snapshotsOf(rig.open()).create("snap", volume, {}, call)).id;
    let id = await snap();
    await failingEachStep(
      rig,
      driver => snapshotsOf(driver).delete(id, call),
      async ({ error }, step) => {
        if (!error) expect([step, await rig.remains()]).toEqual([step, before]);
        await snapshotsOf(rig.open()).delete(id, call);
        expect([step, await rig.remains()]).toEqual([step, before]);
        id = await snap();
      },
    );
  }),

  "an expansion of which a step fails says so, and is finished by its repeat": needing(
    "expand",
    "reading",
  )(async rig => {
    const { id } = await rig.open().create(volumeOf("pvc-1"), call);
    let size = gib;
    const grow = async (driver: Driver): Promise<unknown> =>
      await driver.expand?.expand(id, { required: size + gib, limit: undefined }, call);
    await failingEachStep(rig, grow, async ({ error }, step) => {
      const { bytes } = await getVolume(rig.open(), id);
      expect([step, bytes]).toEqual([step, error && bytes === size ? size : size + gib]);
      await grow(rig.open());
      size += gib;
      expect([step, (await getVolume(rig.open(), id)).bytes]).toEqual([step, size]);
    });
  }),
};

import { expect } from "bun:test";
import type { Driver } from "../../lib/drivers/driver.ts";
import { callWith, type DriverRig, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "./rig.ts";
import { repeated as repeatedAtMost } from "./second-writer/meeting.ts";

const call = callWith();

/** Two that do the same all the time disturb each other often. */
const repeated = <T>(work: () => Promise<T>): Promise<T> => repeatedAtMost(work, 200);

/** Runs the same operation on both controllers at once, repeated as callers do. */
const both = <T>(drivers: readonly Driver[], work: (driver: Driver) => Promise<T>): Promise<readonly T[]> =>
  Promise.all(drivers.map(driver => repeated(() => work(driver))));

/**
 * Two controllers of one connection, as during a change of leaders: whatever they do at once, one name is one volume or snapshot, each
 * answer holds for both, what exists is in every listing meanwhile, and nothing is left at the end.
 */
export async function twoControllers(rig: DriverRig, rounds: number): Promise<void> {
  const drivers = [rig.open(), rig.open()];
  const [one, other] = drivers;
  if (!one || !other) throw new Error("there are two");
  const kept = await one.create(volumeOf("kept"), call);
  await rig.write(kept, "content");
  for (let round = 0; round < rounds; round++) {
    const made = await both(drivers, driver => driver.create(volumeOf("a"), call));
    expect(new Set(made.map(({ id }) => id)).size).toBe(1);
    const id = made[0]?.id ?? "";

    // A listing of one while the other makes and removes: nothing that stays is missing.
    const [listed] = await Promise.all([
      repeated(() => volumeIds(one)),
      repeated(() => other.create(volumeOf("b"), call)).then(({ id: b }) => repeated(() => other.delete(b, call))),
    ]);
    expect(listed).toEqual(expect.arrayContaining([kept.id, id]));

    const copies = await both(drivers, driver =>
      driver.create(volumeOf("copy", gib, { kind: "volume", id: kept.id }), call),
    );
    for (const copy of copies) expect(await rig.read(copy)).toBe("content");

    const snapshots = await both(drivers, driver => snapshotsOf(driver).create("s", kept.id, {}, call));
    const again = await repeated(() => snapshotsOf(one).create("s", kept.id, {}, call));
    for (const { id: snapshot } of [...snapshots, again]) {
      const known = await repeated(() => snapshotsOf(other).get(snapshot, call));
      expect(known.volumeId).toBe(kept.id);
    }
    await both(drivers, driver => snapshotsOf(driver).delete(again.id, call));
    expect(await snapshotIds(one)).toEqual([]);

    // One deletes what the other makes again: whatever comes last, both agree on it, and the last deletion leaves nothing.
    const [first] = await Promise.allSettled([
      repeated(() => one.delete(id, call)),
      repeated(() => other.create(volumeOf("a"), call)),
    ]);
    expect(first.status).toBe("fulfilled");
    expect(await volumeIds(one)).toEqual(await volumeIds(other));
    await both(drivers, driver => driver.delete(id, call));
    await both(drivers, driver => driver.delete(copies[0]?.id ?? "", call));
    expect(await volumeIds(other)).toEqual([kept.id]);
  }
  expect(await rig.read(kept)).toBe("content");
  await both(drivers, driver => driver.delete(kept.id, call));
  expect(await rig.remains()).toEqual([]);
}

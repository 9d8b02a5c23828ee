import { expect } from "bun:test";
import { codeOf } from "./driver-volumes.ts";
import { type Cases, needing } from "./needs.ts";
import { callWith, type DriverRig, findVolume, gib, leftoverOf, snapshotIds, snapshotsOf, volumeOf } from "./rig.ts";

/** Names that were used before: nothing of an earlier volume or snapshot appears in a later one of its name, and nothing of it is lost. */

const call = callWith();

/** The content of a snapshot. */
async function restored(rig: DriverRig, id: string): Promise<string | undefined> {
  const volume = await rig.open().create(volumeOf("restored", gib, { kind: "snapshot", id }), call);
  const content = await rig.read(volume);
  await rig.open().delete(volume.id, call);
  return content;
}

export const generationCases: Cases = {
  "a name that is used again is a new volume, of its own size and empty": needing("inventory")(async rig => {
    for (const size of [gib, 2n * gib]) {
      const volume = await rig.open().create(volumeOf("pvc-1", size), call);
      expect([volume.bytes, await rig.read(volume)]).toEqual([size, undefined]);
      await rig.write(volume, `${size}`);
      await rig.open().delete(volume.id, call);
    }
    expect(await rig.remains()).toEqual([]);
  }),

  "a clone under a name that is used again has its source's present state": needing(
    "clones",
    "names",
  )(async rig => {
    const source = await rig.open().create(volumeOf("source"), call);
    const clone = volumeOf("pvc-1", gib, { kind: "volume", id: source.id });
    const { id } = await rig.open().create(volumeOf("pvc-1"), call);
    await rig.open().delete(id, call);
    for (let step = 1, isOver = false; !isOver; step++) {
      await rig.write(source, "earlier");
      const { driver, dead } = rig.dying(step, "after");
      await driver.create(clone, call).catch(() => {});
      isOver = !dead();
      const isThere = (await findVolume(rig.open(), "pvc-1")) ?? (await leftoverOf(rig.open(), "pvc-1"));
      await rig.write(source, "now");
      const made = await rig.open().create(clone, call);
      // What an interrupted request has made is continued by its repeat.
      if (isThere === undefined) expect([step, await rig.read(made)]).toEqual([step, "now"]);
      await rig.open().delete(made.id, call);
      const again = await rig.open().create(clone, call);
      expect([step, await rig.read(again)]).toEqual([step, "now"]);
      await rig.open().delete(again.id, call);
    }
    await rig.open().delete(source.id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "a snapshot name that is used again holds the volume's present state": needing(
    "snapshots",
    "clones",
  )(async rig => {
    const volume = await rig.open().create(volumeOf("pvc-1"), call);
    for (const text of ["first", "second"]) {
      await rig.write(volume, text);
      const { id } = await snapshotsOf(rig.open()).create("snap", volume.id, {}, call);
      expect(await restored(rig, id)).toBe(text);
      await snapshotsOf(rig.open()).delete(id, call);
    }
    await rig.open().delete(volume.id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "a snapshot that survives its volume keeps its content, whatever is made under the names of both": needing(
    "snapshots",
    "clones",
    "snapshots survive their volume",
  )(async rig => {
    const first = await rig.open().create(volumeOf("pvc-1"), call);
    await rig.write(first, "first");
    const kept = await snapshotsOf(rig.open()).create("snap", first.id, {}, call);
    await rig.open().delete(first.id, call);
    const second = await rig.open().create(volumeOf("pvc-1"), call);
    await rig.write(second, "second");
    // The id of the kept snapshot is in use: the name is refused, or answered with that snapshot.
    const taken = snapshotsOf(rig.open()).create("snap", second.id, {}, call);
    if ((await codeOf(taken)) === "ok") expect((await taken).id).toBe(kept.id);
    else expect(await codeOf(taken)).toBe("already-exists");
    const other = await snapshotsOf(rig.open()).create("other", second.id, {}, call);
    await rig.open().delete(second.id, call);
    expect((await snapshotIds(rig.open())).toSorted()).toEqual([kept.id, other.id].toSorted());
    expect([await restored(rig, kept.id), await restored(rig, other.id)]).toEqual(["first", "second"]);
    for (const { id } of [kept, other]) {
      await snapshotsOf(rig.open()).delete(id, call);
      expect(await codeOf(snapshotsOf(rig.open()).get(id, call))).toBe("not-found");
    }
    expect(await rig.remains()).toEqual([]);
  }),
};

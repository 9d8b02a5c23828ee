import { expect } from "bun:test";
import type { Driver, Source } from "../../../lib/drivers/driver.ts";
import { codeOf } from "../driver-volumes.ts";
import { type Cases, needing } from "../needs.ts";
import { callWith, type DriverRig, findVolume, gib, leftoverOf, snapshotsOf, volumeOf } from "../rig.ts";
import { type Meeting, played, repeated } from "./meeting.ts";

/**
 * Two controllers of one connection without a common lock, as while one of them is being replaced: between two steps of the first, the second
 * does all of its own work and answers, and at a later step perhaps a third does the same. What it has finished stays as it is, nothing unfinished is reported as done, and a repeat converges.
 */

const call = callWith();

/** Creates the volume of all scenes. */
const create = (driver: Driver, source?: Source) => driver.create(volumeOf("pvc-1", gib, source), call);

/** Deletes it. */
const remove = async (driver: Driver) => driver.delete(driver.names?.idOf("pvc-1") ?? "", call);

const answers = ["ok", "aborted", "unavailable", "already-exists"];

/** Whether the first's answer fits: of a step that failed it may say that the storage is full. */
function expectAnswer({ plan, first, second }: Meeting, also: readonly string[] = []): void {
  const full = plan.includes("full") ? ["resource-exhausted"] : [];
  const isFit = [...answers, ...also, ...full].includes(first);
  expect([plan, first, second, isFit]).toEqual([plan, first, second, true]);
}

/** A volume that was reported to its caller is whole, with this content, and reachable. */
async function expectWhole(rig: DriverRig, meeting: Meeting, content: string | undefined): Promise<void> {
  const { plan, first, second } = meeting;
  const about = [plan, first, second];
  const driver = rig.open();
  const volume = await findVolume(driver, "pvc-1");
  expect([...about, volume && (await rig.read(volume))]).toEqual([...about, content]);
  expect([...about, volume?.bytes]).toEqual([...about, gib]);
  const findings = await driver.health?.look(call);
  expect([...about, findings?.volumes.get(volume?.id ?? "") ?? []]).toEqual([...about, []]);
}

/** Deletes the volume of a scene, whatever is left of it. */
async function cleared(rig: DriverRig, before: readonly string[], { plan }: Meeting): Promise<void> {
  const { names } = rig.open();
  if (names) await repeated(() => rig.open().delete(names.idOf("pvc-1"), call));
  const left = (await rig.remains()).filter(each => !before.includes(each) && !rig.abandoned?.test(each));
  expect([plan, left]).toEqual([plan, []]);
}

/** Creations of one volume by both. */
async function bothCreate(rig: DriverRig, source?: Source): Promise<void> {
  const before = await rig.remains();
  await played(rig, {
    first: driver => create(driver, source),
    second: async driver => rig.write(await create(driver, source), "of the second"),
    async check(met) {
      expectAnswer(met);
      const content = met.second === "ok" ? "of the second" : source && "content";
      if (met.second === "ok" || met.first === "ok") await expectWhole(rig, met, content);
      await repeated(() => create(rig.open(), source));
      await expectWhole(rig, met, content);
      await cleared(rig, before, met);
    },
  });
}

async function origin(rig: DriverRig): Promise<Source> {
  const volume = await rig.open().create(volumeOf("origin"), call);
  await rig.write(volume, "content");
  return { kind: "volume", id: volume.id };
}

/** Begins the volume of the scenes in a process that ends before it is finished; leaves nothing where one step makes a volume. */
async function begun(rig: DriverRig): Promise<void> {
  for (let step = 1; ; step++) {
    const { driver, dead } = rig.dying(step, "after");
    await codeOf(create(driver));
    if ((await leftoverOf(rig.open(), "pvc-1")) !== undefined) return;
    if (!dead()) return void (await remove(rig.open()));
  }
}

export const secondWriterCases: Cases = {
  "a volume that two controllers create at once is whole, and what the first undoes is never the second's": needing(
    "names",
    "a second writer",
  )(rig => bothCreate(rig)),

  "a clone that two controllers make at once is whole, and what the first undoes is never the second's": needing(
    "names",
    "a second writer",
    "clones",
  )(async rig => bothCreate(rig, await origin(rig))),

  "a snapshot that two controllers restore at once is whole, and what the first undoes is never the second's": needing(
    "names",
    "a second writer",
    "snapshots",
    "clones",
  )(async rig => {
    const { id: volume } = await origin(rig);
    const { id } = await snapshotsOf(rig.open()).create("origin-copy", volume, {}, call);
    await bothCreate(rig, { kind: "snapshot", id });
  }),

  "a volume that is deleted while it is created is whole or gone, and its name can be used": needing(
    "names",
    "a second writer",
  )(async rig => {
    await played(rig, {
      first: create,
      second: remove,
      async check(met) {
        expectAnswer(met);
        const found = (await findVolume(rig.open(), "pvc-1")) ?? (await leftoverOf(rig.open(), "pvc-1"));
        if (met.first === "ok" && found !== undefined) await expectWhole(rig, met, undefined);
        await repeated(() => create(rig.open()));
        await expectWhole(rig, met, undefined);
        await cleared(rig, [], met);
      },
    });
  }),

  "a volume that one controller deletes and makes again is not what the other is creating or undoing": needing(
    "names",
    "a second writer",
  )(async rig => {
    await played(rig, {
      first: create,
      async second(driver) {
        await remove(driver);
        await rig.write(await create(driver), "of the second");
      },
      async check(met) {
        expectAnswer(met);
        if (met.second === "ok") await expectWhole(rig, met, "of the second");
        await repeated(() => create(rig.open()));
        await expectWhole(rig, met, met.second === "ok" ? "of the second" : undefined);
        await cleared(rig, [], met);
      },
    });
  }),

  "a volume that one controller deletes and makes again is not what the other is deleting": needing(
    "names",
    "a second generation",
  )(async rig => {
    await played(rig, {
      prepare: async driver => rig.write(await create(driver), "old"),
      first: remove,
      async second(driver) {
        await remove(driver);
        await rig.write(await create(driver), "new");
      },
      async check(met) {
        expectAnswer(met, ["failed-precondition"]);
        const found = await findVolume(rig.open(), "pvc-1");
        if (met.second === "ok" && (met.hadRead || found)) await expectWhole(rig, met, "new");
        if (met.second === undefined && met.first === "ok") expect([met.plan, found]).toEqual([met.plan, undefined]);
        await repeated(() => remove(rig.open()));
        await cleared(rig, [], met);
      },
    });
  }),

  "what is cleared as unfinished is never what another controller has finished meanwhile": needing(
    "names",
    "a second writer",
  )(async rig => {
    await played(rig, {
      prepare: () => begun(rig),
      first: async driver => driver.names?.discard(driver.names.idOf("pvc-1"), call),
      second: async driver => rig.write(await create(driver), "of the second"),
      async check(met) {
        expectAnswer(met, ["failed-precondition"]);
        if (met.second === "ok") await expectWhole(rig, met, "of the second");
        else if (met.first === "ok")
          expect([met.plan, await leftoverOf(rig.open(), "pvc-1")]).toEqual([met.plan, undefined]);
        await cleared(rig, [], met);
      },
    });
  }),

  "a snapshot that two controllers take at once is whole, and what the first undoes is never the second's": needing(
    "snapshots",
    "a second writer",
    "clones",
  )(async rig => {
    const { id: volume } = await origin(rig);
    const before = await rig.remains();
    const take = (driver: Driver) => snapshotsOf(driver).create("snap", volume, {}, call);
    let taken = "";
    await played(rig, {
      first: take,
      second: async driver => {
        taken = (await take(driver)).id;
      },
      async check(met) {
        expectAnswer(met);
        if (met.second === "ok") expect([met.plan, await restored(rig, taken)]).toEqual([met.plan, "content"]);
        const again = await repeated(() => take(rig.open()));
        if (met.second === "ok") expect([met.plan, again.id]).toEqual([met.plan, taken]);
        await repeated(() => snapshotsOf(rig.open()).delete(again.id, call));
        expect([met.plan, await rig.remains()]).toEqual([met.plan, before]);
      },
    });
  }),

  "a snapshot that one controller deletes and takes again is not what the other is deleting": needing(
    "snapshots",
    "clones",
    "a second generation",
  )(async rig => {
    const source = await origin(rig);
    const before = await rig.remains();
    const take = (driver: Driver) => snapshotsOf(driver).create("snap", source.id, {}, call);
    const write = async (text: string) => {
      const volume = await findVolume(rig.open(), "origin");
      if (volume) await rig.write(volume, text);
    };
    let old = "";
    let taken = "";
    await played(rig, {
      async prepare(driver) {
        await write("old");
        old = (await take(driver)).id;
      },
      first: driver => snapshotsOf(driver).delete(old, call),
      async second(driver) {
        await snapshotsOf(driver).delete(old, call);
        await write("new");
        taken = (await take(driver)).id;
      },
      async check(met) {
        expectAnswer(met, ["failed-precondition"]);
        const isThere = (await codeOf(snapshotsOf(rig.open()).get(taken, call))) === "ok";
        if (met.second === "ok" && (met.hadRead || isThere))
          expect([met.plan, met.first, isThere && (await restored(rig, taken))]).toEqual([met.plan, met.first, "new"]);
        for (const id of met.second === "ok" ? [old, taken] : [old])
          await repeated(() => snapshotsOf(rig.open()).delete(id, call));
        expect([met.plan, await rig.remains()]).toEqual([met.plan, before]);
      },
    });
  }),
};

/** The content of a snapshot; undefined for one that is gone. */
async function restored(rig: DriverRig, id: string): Promise<string | undefined> {
  const spec = volumeOf("restored", gib, { kind: "snapshot", id });
  const volume = await repeated(() => rig.open().create(spec, call));
  const content = await rig.read(volume);
  await repeated(() => rig.open().delete(volume.id, call));
  return content;
}

import { describe, expect, test } from "bun:test";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import type { Source } from "../../../../lib/drivers/volume.ts";
import {
  callWith,
  type DriverRig,
  failing,
  findVolume,
  gib,
  snapshotsOf,
  volumeIds,
  volumeOf,
} from "../../../contract/rig.ts";
import { atEachStep } from "../../../contract/steps.ts";
import { isHostRoot } from "../../../root.ts";
import { everything, seed } from "../../../sample.ts";
import { backupRig, kopiaRepository } from "../backup-rig.ts";
import { directoryRig } from "../directory-rig.ts";
import { abilities, copyOf, copyWhole, handleOf } from "./rig.ts";

const call = callWith();

/**
 * Each method with and without a loss of power would take too long: a loss leaves less, a death more. restic fills a landing as kopia does, and
 * takes ten times as long for it.
 */
const cases = [
  ["a copy of a volume", 0, false, () => directoryRig()],
  ["a copy of a snapshot, after a loss of power", 1, true, () => directoryRig()],
  ["a restored snapshot of kopia", 0, false, async () => backupRig(await kopiaRepository())],
] as const;

/** Every other step, which the seed draws; one of two cases with other shifts dies at each. */
const isDrawn = (shift: number) => (step: number) => everything || (step + seed + shift) % 2 === 0;

/** The folders that stay once there was a copy. */
const isOurs = (name: string): boolean => name.includes("pvc-1") || /^\.csimux\/(copies|snapshots|work)\/./.test(name);

async function withSource(rig: DriverRig, what: string): Promise<Source> {
  const driver = rig.open();
  const volume = await driver.create(volumeOf("origin"), call);
  await rig.write(volume, "content");
  const made = await snapshotsOf(driver).create("snap", volume.id, {}, call);
  return what.endsWith("volume") ? { kind: "volume", id: volume.id } : { kind: "snapshot", id: made.id };
}

/** Nothing shows an unfinished copy; a finished one has its content. */
async function inspect(rig: DriverRig, driver: Driver, step: string): Promise<void> {
  const found = await findVolume(driver, "pvc-1").catch(() => undefined);
  expect([step, await volumeIds(driver)]).toEqual([step, found ? ["origin", "pvc-1"] : ["origin"]]);
  if (found) expect([step, await rig.read(found)]).toEqual([step, "content"]);
  const findings = await driver.health?.look(call);
  expect([step, [...(findings?.volumes.keys() ?? [])]]).toEqual([step, []]);
}

describe.skipIf(!isHostRoot || !Bun.which("rsync"))("a copy to another connection that is interrupted anywhere", () => {
  test.each(cases)(
    "is finished by its repeat: %s",
    async (what, shift, power, rigOf) => {
      const rig = await rigOf();
      try {
        const source = await withSource(rig, what);
        const spec = copyOf("pvc-1", `${source.kind[0]}:c0/source`);
        const lose = async () => (power ? await rig.losePower?.() : undefined);
        await atEachStep(
          (step, when) => {
            const { driver, dead } = rig.dying(step, when);
            return { work: () => copyWhole(driver, driver, source, spec), dead };
          },
          async step => {
            await lose();
            await inspect(rig, rig.open(), step);
            const driver = rig.open();
            const id = await copyWhole(driver, driver, source, spec);
            await lose();
            const volume = await rig.open().reading?.get(id, call);
            expect([step, volume && (await rig.read(volume))]).toEqual([step, "content"]);
            await rig.open().delete(id, call);
            await lose();
            expect([step, (await rig.remains()).filter(isOurs)]).toEqual([step, []]);
          },
          isDrawn(shift),
        );
      } finally {
        await rig.close();
      }
    },
    600_000,
  );

  test.each([false, true])(
    "is given up by a drop that may be interrupted anywhere, loss of power: %p",
    async power => {
      const rig = await directoryRig();
      try {
        const source = await withSource(rig, "a snapshot");
        const spec = copyOf("pvc-1", "s:c0/source");
        const lose = async () => (power ? await rig.losePower?.() : undefined);
        const giveUp = async (driver: Driver) => {
          await abilities(driver).copyTarget.drop("pvc-1", call);
          await abilities(driver).copySource.release(handleOf("pvc-1"), undefined, call);
        };
        const begin = async (driver: Driver) => {
          const snapshot = await abilities(driver).copySource.protect(source, handleOf("pvc-1"), 0, call);
          const { copyTarget } = abilities(driver);
          await copyTarget.begin(spec, snapshot, "begun", call);
          await Bun.write(`${await copyTarget.folder?.("pvc-1", call)}/deep/file`, "x");
        };
        await atEachStep(
          (step, when) => {
            const { driver, dead } = rig.dying(step, when);
            return { work: () => begin(rig.open()).then(() => giveUp(driver)), dead };
          },
          async step => {
            await lose();
            const driver = rig.open();
            await inspect(rig, driver, step);
            // Without a record nothing is left, because no later call would find it.
            const landings = await abilities(driver).copyTarget.copies(call);
            const work = (await rig.remains()).filter(name => name.startsWith(".csimux/work/"));
            if (landings.length === 0) expect([step, work]).toEqual([step, []]);
            await giveUp(driver);
            await lose();
            expect([step, (await rig.remains()).filter(isOurs)]).toEqual([step, []]);
          },
          isDrawn(power ? 1 : 0),
        );
      } finally {
        await rig.close();
      }
    },
    600_000,
  );

  test("reports a full disk as something that a repeat can finish, or leaves nothing", async () => {
    const rig = await directoryRig();
    try {
      const source = await withSource(rig, "a snapshot");
      const spec = copyOf("pvc-1", "s:c0/source", gib);
      for (let at = everything ? 1 : 1 + (seed % 2); ; at += everything ? 1 : 2) {
        const { driver, failed } = failing(rig, at);
        await copyWhole(driver, driver, source, spec).catch(() => undefined);
        await inspect(rig, rig.open(), `step ${at}`);
        const id = await copyWhole(rig.open(), rig.open(), source, spec);
        await rig.open().delete(id, call);
        expect([at, (await rig.remains()).filter(isOurs)]).toEqual([at, []]);
        if (!failed()) break;
        expect(at).toBeLessThan(200);
      }
    } finally {
      await rig.close();
    }
  }, 600_000);
});

import { expect } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import type { Driver, Source, Volume, VolumeSpec } from "../../lib/drivers/driver.ts";
import { codeOf } from "./driver-volumes.ts";
import { type Cases, needing } from "./needs.ts";
import {
  callWith,
  type DriverRig,
  type Foreign,
  findVolume,
  gib,
  snapshotIds,
  snapshotsOf,
  volumeIds,
  volumeOf,
} from "./rig.ts";

/** Foreign objects at a driver's paths and names: they are never listed, adopted, changed or removed. */

const call = callWith();
const refused = ["already-exists", "failed-precondition"];
const missing = ["not-found", "failed-precondition"];
const harmless = ["ok", "failed-precondition"];

/** Words for what a call came to: its code, and its text where it failed. */
async function outcome(work: Promise<unknown>): Promise<{ readonly code: string; readonly text: string }> {
  const code = await codeOf(work);
  const text = await work.then(
    () => "",
    (error: Error) => error.message,
  );
  return { code, text };
}

const of = (rig: DriverRig, ...places: readonly Foreign["place"][]): readonly Foreign[] =>
  rig.foreign.filter(({ place }) => places.includes(place));

/** A call that might take something for its own, with the codes that are right for it. */
type Attempt = readonly [
  what: string,
  codes: readonly string[],
  work: (driver: Driver) => Promise<unknown> | undefined,
];

/** Every call that could mistake a foreign object under an id for a volume. */
function attemptsOn(name: string, id: string, readable: boolean): readonly Attempt[] {
  const source: Source = { kind: "volume", id };
  const reads = readable ? [...missing, "ok"] : missing;
  const spec: VolumeSpec = volumeOf(name);
  return [
    ["create", refused, driver => driver.create(spec, call)],
    ["read", reads, driver => driver.reading?.get(id, call)],
    ["expand", missing, driver => driver.expand?.expand(id, { required: 2n * gib, limit: undefined }, call)],
    ["modify", missing, driver => driver.modify?.modify(id, { compression: "lz4", speed: "fast" }, call)],
    ["snapshot", missing, driver => driver.snapshots?.create("snap", id, {}, call)],
    ["group snapshot", missing, driver => driver.groupSnapshots?.create("group", [id], {}, call)],
    ["clone from it", missing, driver => driver.clones && driver.create(volumeOf("copy", gib, source), call)],
    ["restore its export", harmless, driver => driver.health?.restore?.(id, call)],
    ["delete", harmless, driver => driver.delete(id, call)],
    ["adopt without marking", [...missing, "ok"], driver => driver.adoption?.adopt(id, false, call)],
  ];
}

/** A volume of this name that the driver has made and deleted, so that its place is known. */
async function placeOf(driver: Driver, name: string): Promise<Volume> {
  const volume = await driver.create(volumeOf(name), call);
  await driver.delete(volume.id, call);
  return volume;
}

export const foreignCases: Cases = {
  "what a person made in the place of a volume is not listed, adopted, changed or removed, and a create names it":
    needing()(async rig => {
      for (const [index, foreign] of of(rig, "volume").entries()) {
        const driver = rig.open();
        const name = `pvc-${index}`;
        const { id, ...volume } = await placeOf(driver, name);
        const look = await foreign.make({ id, ...volume }, "snap");
        const before = await look();
        const all = await rig.remains();
        for (const [what, codes, work] of attemptsOn(name, id, foreign.readable !== undefined)) {
          const working = work(rig.open());
          if (!working) continue;
          const { code, text } = await outcome(working);
          expect([foreign.what, what, codes.includes(code) ? codes : `${code}: ${text}`]).toEqual([
            foreign.what,
            what,
            codes,
          ]);
          if (what === "create") expect([foreign.what, text]).toEqual([foreign.what, expect.stringContaining(id)]);
          expect([foreign.what, what, await look(), await rig.remains()]).toEqual([foreign.what, what, before, all]);
        }
        expect([foreign.what, await volumeIds(driver)]).toEqual([foreign.what, []]);
        if (driver.names && foreign.readable === undefined) {
          const found = findVolume(driver, name).catch((error: CsiError) =>
            error.code === "failed-precondition" ? undefined : error,
          );
          expect([foreign.what, await found]).toEqual([foreign.what, undefined]);
        }
      }
    }),

  "a foreign share or target of a volume's name is neither adopted nor removed": needing()(async rig => {
    for (const [index, foreign] of of(rig, "way").entries()) {
      const driver = rig.open();
      const name = `pvc-${index}`;
      const volume = await placeOf(driver, name);
      const look = await foreign.make(volume, "snap");
      const before = await look();
      const all = await rig.remains();
      // Beside it, if the way of the volume has another name after all; or not at all.
      const made = await outcome(driver.create(volumeOf(name), call));
      if (made.code !== "ok") {
        expect([foreign.what, made.text, made.code]).toEqual([
          foreign.what,
          made.text,
          expect.stringMatching(/already-exists|failed-prec/),
        ]);
        expect([foreign.what, await rig.remains()]).toEqual([foreign.what, all]);
      }
      expect([foreign.what, "create", await look()]).toEqual([foreign.what, "create", before]);
      expect([foreign.what, await codeOf(driver.delete(volume.id, call))]).toEqual([foreign.what, "ok"]);
      expect([foreign.what, "delete", await look(), await rig.remains()]).toEqual([
        foreign.what,
        "delete",
        before,
        all,
      ]);
    }
  }),

  "a snapshot that a person made under the name of one is not listed, adopted, restored or removed": needing(
    "snapshots",
  )(async rig => {
    for (const [index, foreign] of of(rig, "snapshot").entries()) {
      const driver = rig.open();
      const volume = await driver.create(volumeOf(`pvc-${index}`), call);
      const { id } = await snapshotsOf(driver).create("snap", volume.id, {}, call);
      await snapshotsOf(driver).delete(id, call);
      const look = await foreign.make(volume, id);
      const before = await look();
      const attempts: readonly Attempt[] = [
        ["create", refused, each => each.snapshots?.create("snap", volume.id, {}, call)],
        ["read", missing, each => each.snapshots?.get(id, call)],
        ["restore", missing, each => each.clones && each.create(volumeOf("copy", gib, { kind: "snapshot", id }), call)],
        ["delete", harmless, each => each.snapshots?.delete(id, call)],
      ];
      for (const [what, codes, work] of attempts) {
        const { code, text } = await outcome(work(rig.open()) ?? Promise.reject(new CsiError("not-found", "")));
        expect([foreign.what, what, codes.includes(code) ? codes : `${code}: ${text}`]).toEqual([
          foreign.what,
          what,
          codes,
        ]);
        expect([foreign.what, what, await look()]).toEqual([foreign.what, what, before]);
      }
      expect([foreign.what, await snapshotIds(driver)]).toEqual([foreign.what, []]);
    }
  }),
};

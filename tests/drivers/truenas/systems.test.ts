import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { scaleVersions, type Version, versions } from "../../fakes/truenas/versions.ts";
import { on, refusal, remainsOf } from "./rig.ts";
import { sshRig } from "./ssh-rig.ts";

/** Which driver works with which TrueNAS, as the page about TrueNAS says it. */

const call = callWith();
const spellings = ["freenas", "truenas"] as const;
const protocols = ["nfs", "smb", "iscsi", "nvmeof"] as const;

/** The rows of the table of versions: the first cell, and those of the drivers over ssh and over the API. */
const rows = readFileSync(join(import.meta.dir, "../../../examples/guide/storage/truenas.md"), "utf8")
  .split("\n")
  .flatMap(line => {
    const [, system = "", ssh = "", api = "", nvme = ""] =
      /^\| (TrueNAS [^|]+) \| (\w+) \| (\w+) \| (\w+) \|/.exec(line) ?? [];
    return system === "" ? [] : [{ system, ssh, api, nvme }];
  });

/** The versions that the double is for a row. */
const doubles: Readonly<Record<string, readonly Version[]>> = {
  "TrueNAS CORE 12 and 13": ["12.0", "13.0"],
  "TrueNAS SCALE 21.08 to 24.04": ["21.08", "22.02", "22.12", "23.10", "24.04"],
  "TrueNAS SCALE 24.10": ["24.10"],
  "TrueNAS 25.04": ["25.04"],
  "TrueNAS 25.10, and 26 from 26.0.0-RC.1 on": ["25.10", "26.0"],
};

test("the table of versions has a row for every version of the double", () => {
  expect(rows.map(({ system }) => system)).toEqual(Object.keys(doubles));
  expect(Object.values(doubles).flat()).toEqual([...versions]);
});

/** Makes a volume, snapshots it, makes others of it and of the snapshot, grows and lists it, and deletes all of them. */
async function wholeLife(driver: Driver): Promise<void> {
  await driver.check?.(call);
  const { id } = await driver.create(volumeOf("pvc-1"), call);
  const snapshot = await snapshotsOf(driver).create("s", id, {}, call);
  const restored = await driver.create(volumeOf("r", gib, { kind: "snapshot", id: snapshot.id }), call);
  const clone = await driver.create(volumeOf("c", gib, { kind: "volume", id }), call);
  const grown = await driver.expand?.expand(id, { required: 2n * gib, limit: undefined }, call);
  expect(grown?.bytes).toBe(2n * gib);
  const page = { max: 100, token: undefined };
  const { items } = (await driver.inventory?.list(page, call)) ?? { items: [] };
  const sizes = items.map(each => [each.id, each.bytes]).sort();
  expect(sizes).toEqual(
    [
      [clone.id, gib],
      [id, 2n * gib],
      [restored.id, gib],
    ].sort(),
  );
  const snapshots = await snapshotsOf(driver).list({ volumeId: id }, page, call);
  expect(snapshots.items.map(each => each.id)).toEqual([snapshot.id]);
  for (const each of [restored, clone]) await driver.delete(each.id, call);
  await snapshotsOf(driver).delete(snapshot.id, call);
  await driver.delete(id, call);
}

describe.each(rows)("$system", ({ system, ssh, api, nvme }) => {
  const reachable = protocols.filter(protocol => protocol !== "nvmeof" || nvme === "yes");
  for (const version of doubles[system] ?? [])
    for (const spelling of spellings) {
      test.each(api === "yes" ? reachable : [])(
        `${version}: ${spelling}-api-%s serves a volume from creation to deletion`,
        async protocol =>
          on(
            { version },
            protocol,
            async (driver, double) => {
              await wholeLife(driver);
              expect(remainsOf(double)).toEqual([]);
            },
            { spelling },
          ),
      );

      test.each(protocols.filter(each => api !== "yes" || !reachable.includes(each)))(
        `${version}: ${spelling}-api-%s is refused, and says what to use instead`,
        async protocol =>
          on(
            { version },
            protocol,
            async (driver, double) => {
              const works =
                protocol === "nvmeof"
                  ? "needs TrueNAS 25.10 or newer"
                  : `use driver: ${spelling}-${protocol} with sshConnection`;
              for (const work of [driver.check?.(call) ?? Promise.resolve(), driver.create(volumeOf("pvc-1"), call)])
                expect(await refusal(work)).toMatchObject({
                  code: "failed-precondition",
                  message: expect.stringContaining(works),
                });
              expect(remainsOf(double)).toEqual([]);
            },
            { spelling },
          ),
      );

      test.each(ssh === "yes" ? reachable : [])(
        `${version}: ${spelling}-%s serves a volume over ssh from creation to deletion`,
        async protocol => {
          const rig = await sshRig(protocol, version, spelling);
          await wholeLife(rig.open());
          expect(await rig.remains()).toEqual([]);
          await rig.close();
        },
      );
    }
});

test("the API drivers are for SCALE alone", () => {
  const apiRows = rows.filter(({ api }) => api === "yes").flatMap(({ system }) => doubles[system] ?? []);
  expect(apiRows).toEqual([...scaleVersions]);
});

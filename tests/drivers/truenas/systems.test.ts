import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { startDouble } from "../../fakes/truenas/double.ts";
import { scaleVersions, type Version, versions } from "../../fakes/truenas/versions.ts";
import { openOn, refusal, remainsOf } from "./rig.ts";
import { sshRig } from "./ssh-rig.ts";

/** Which driver works with which TrueNAS, as README says it. */

const call = callWith();
const spellings = ["freenas", "truenas"] as const;
const ways = ["nfs", "smb", "iscsi", "nvmeof"] as const;

/** The rows of README's table of versions: the first cell, and those of the drivers over ssh and over the API. */
const rows = readFileSync(join(import.meta.dir, "../../../README.md"), "utf8")
  .split("\n")
  .flatMap(line => {
    const [, system = "", ssh = "", api = "", nvme = ""] =
      /^\| (TrueNAS [^|]+) \| (\w+) \| (\w+) \| (\w+) \|/.exec(line) ?? [];
    return system === "" ? [] : [{ system, ssh, api, nvme }];
  });

/** The version of the double that stands for a row. */
const standing: Readonly<Record<string, readonly Version[]>> = {
  "TrueNAS CORE 12 and 13": ["13.0"],
  // Expected to work, and nothing stands for them.
  "TrueNAS SCALE 21.08 to 24.04": [],
  "TrueNAS SCALE 24.10": ["24.10"],
  "TrueNAS 25.04": ["25.04"],
  "TrueNAS 25.10 and 26": ["25.10", "26.0"],
};

test("README's table of versions has a row for every version that is tested", () => {
  expect(rows.map(({ system }) => system)).toEqual(Object.keys(standing));
  expect(Object.values(standing).flat()).toEqual([...versions]);
});

describe.each(rows)("$system", ({ system, ssh, api, nvme }) => {
  for (const version of standing[system] ?? [])
    for (const spelling of spellings) {
      test.each(ways)(
        `${version}: ${spelling}-api-%s works where README says so, and says what does where it does not`,
        async way => {
          const double = await startDouble({ version });
          const driver = openOn(double, way, { spelling });
          const works = api === "yes" && (way !== "nvmeof" || nvme === "yes");
          const checked = await refusal(driver.check?.(call) ?? Promise.resolve());
          const made = await refusal(driver.create(volumeOf("pvc-1"), call));
          if (works) {
            expect([checked.code, made.code]).toEqual(["ok", "ok"]);
            await driver.delete("pvc-1", call);
          } else if (api !== "yes") {
            for (const { code, message } of [checked, made]) {
              expect([code, message]).toEqual(["failed-precondition", expect.any(String)]);
              expect(message).toContain(`use driver: ${spelling}-${way} with sshConnection`);
            }
          } else expect(made.code).not.toBe("ok");
          if (works || api !== "yes") expect(remainsOf(double)).toEqual([]);
          await driver.close?.();
          await double.close();
        },
      );

      test.each(ways.filter(way => way !== "nvmeof" || nvme === "yes"))(
        `${version}: ${spelling}-%s makes, grows, snapshots, restores and deletes a volume over ssh`,
        async way => {
          expect(ssh).toBe("yes");
          const rig = await sshRig(way, version, spelling);
          const driver = rig.open();
          await driver.check?.(call);
          const { id } = await driver.create(volumeOf("pvc-1"), call);
          const grown = await driver.expand?.expand(id, { required: 2n * gib, limit: undefined }, call);
          expect(grown?.bytes).toBe(2n * gib);
          const snapshot = await snapshotsOf(driver).create("s", id, {}, call);
          const restored = await driver.create(volumeOf("r", 2n * gib, { kind: "snapshot", id: snapshot.id }), call);
          await driver.delete(restored.id, call);
          await snapshotsOf(driver).delete(snapshot.id, call);
          await driver.delete(id, call);
          expect(await rig.remains()).toEqual([]);
          await rig.close();
        },
      );
    }
});

test("the API drivers are for SCALE alone", () => {
  const apiRows = rows.filter(({ api }) => api === "yes").flatMap(({ system }) => standing[system] ?? []);
  expect(apiRows).toEqual([...scaleVersions]);
});

import { expect, test } from "bun:test";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { callWith, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { expectTruthful, operations, type SpoiledRig } from "../../../contract/spoiled-answers.ts";
import { type Double, startDouble } from "../../../fakes/truenas/double.ts";
import { numberOf, recentVersions, type Version } from "../../../fakes/truenas/versions.ts";
import { everything, seed } from "../../../sample.ts";
import { on, openOn, type Protocol, refusal } from "../rig.ts";
import { type ApiAnswer, apiHarms, saved, spoil, thingsOf } from "./spoiled.ts";

// Every answer of the API to every operation, changed in every way that can happen.

const call = callWith();

async function open(protocol: Protocol, version: Version): Promise<SpoiledRig<ApiAnswer>> {
  const double = await startDouble({ version });
  const noon = Date.now();
  double.now = () => noon;
  let driver: Driver | undefined;
  return {
    harms: apiHarms,
    open(spoiler) {
      void driver?.close?.();
      spoil(double, spoiler);
      driver = openOn(double, protocol);
      return driver;
    },
    save: async () => {
      const restore = saved(double);
      return async () => restore();
    },
    things: async () => thingsOf(double),
    async close() {
      await driver?.close?.();
      await double.close();
    },
  };
}

const effort = everything ? { random: 50 } : { random: 2, most: 6, seed };

const protocols = ["nfs", "smb", "iscsi", "nvmeof"] as const;
const titles = Object.keys(operations).filter(title => !/group/.test(title));

/** Each operation over each protocol, and on each version, but only every other triple, which the seed draws. */
const cases = recentVersions.flatMap((version, v) =>
  protocols
    .filter(protocol => protocol !== "nvmeof" || numberOf(version) >= 2510)
    .flatMap((protocol, p) =>
      titles
        .filter((_, at) => everything || (v + p + at + seed) % 2 === 0)
        .map(title => [protocol, version, title] as const),
    ),
);

test.each(cases)(
  "truenas-api-%s on TrueNAS %s never reports success of what was not done, and destroys nothing else, whatever happens to an answer: %s",
  async (protocol, version, title) => {
    const rig = await open(protocol, version);
    try {
      expect(await expectTruthful(rig, title, effort)).toBeGreaterThan(0);
    } finally {
      await rig.close();
    }
  },
  600_000,
);

const page = "<html><title>404 Not Found</title></html>";

/** The next answer to a request for which `fits` says so comes as a page of the front end, whether the server has done it or not. */
function paged(double: Double, status: number, fits: () => boolean, reached: boolean): void {
  let times = 0;
  const once = () => (fits() && times++ === 0 ? { texts: [page], status } : undefined);
  if (reached) double.deliver = once;
  else double.intercept = once;
}

test("a 404 of a front end does not mean that a snapshot does not exist", async () => {
  await on({ version: "24.10" }, "nfs", async (driver, double) => {
    const { id } = await driver.create(volumeOf("a"), call);
    const snapshot = await snapshotsOf(driver).create("s", id, {}, call);
    for (let at = 1; at <= 8; at++) {
      let requests = 0;
      paged(double, 404, () => ++requests === at, false);
      const { code } = await refusal(snapshotsOf(driver).delete(snapshot.id, call));
      if (code !== "ok") continue;
      expect(Object.keys(double.state.snapshots)).toEqual([]);
      return;
    }
  });
});

test("a change that a front end answers with 502 is not repeated, because it may have been done", async () => {
  await on({ version: "24.10" }, "nfs", async (driver, double) => {
    paged(double, 502, () => double.requests.at(-1)?.method === "sharing.nfs.create", true);
    expect(await refusal(driver.create(volumeOf("a"), call))).toMatchObject({ code: "unavailable" });
    expect(double.state.tables.nfs).toHaveLength(1);
    await driver.create(volumeOf("a"), call);
    expect(double.state.tables.nfs).toHaveLength(1);
  });
});

test("a system with a list of versions is not used over REST if a front end answers 404 for the list", async () => {
  for (const version of recentVersions.filter(each => numberOf(each) >= 2504)) {
    await on({ version }, "nfs", async (driver, double) => {
      paged(double, 404, () => true, false);
      expect(await refusal(driver.create(volumeOf("a"), call))).not.toMatchObject({ code: "ok" });
      expect(
        double.requests.filter(({ protocol, method }) => protocol === "rest" && method !== "system.version"),
      ).toEqual([]);
    });
  }
});

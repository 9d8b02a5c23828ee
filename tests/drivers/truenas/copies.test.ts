import { describe, expect, test } from "bun:test";
import { callWith, gib, volumeIds, volumeOf } from "../../contract/rig.ts";
import { atEachStep } from "../../contract/steps.ts";
import type { Double } from "../../fakes/truenas/double.ts";
import type { Dataset } from "../../fakes/truenas/state.ts";
import { recentVersions } from "../../fakes/truenas/versions.ts";
import { sampled } from "../../sample.ts";
import { pause } from "../../waiting.ts";
import { on, openOn, parent, refusal, remainsOf, truenasRig } from "./rig.ts";

/** Full copies that are interrupted, or that are encrypted. */

const call = callWith();
const parameters = { detachedVolumesFromVolumes: "true" };
const spec = { ...volumeOf("copy", gib, { kind: "volume" as const, id: "pvc-1" }), parameters };
const landing = `${parent}/csimux-recv-copy`;
const copyMethod = "replication.run_onetime";
const replications = ({ requests }: Double) => requests.filter(({ method }) => method === copyMethod);

/** Makes the volume that is copied. */
async function madeSource(double: Double): Promise<void> {
  const driver = openOn(double, "nfs");
  const { id } = await driver.create(volumeOf("pvc-1"), call);
  const source = double.state.datasets[`${parent}/${id}`];
  if (source) source.content = "data";
  await driver.close?.();
}

const datasetOf = (double: Double, name: string): Dataset => {
  const dataset = double.state.datasets[name];
  if (!dataset) throw new Error(`${name} does not exist`);
  return dataset;
};

/** Waits until the copy has begun. */
async function begun(double: Double): Promise<void> {
  while (!double.receiving.has(landing)) await pause(2);
}

describe.each(sampled(recentVersions, each => each === "26.0"))("a full copy on TrueNAS %s", version => {
  test("continues where a broken stream, and a restart of the server, have left it", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      await madeSource(double);
      double.breaks = 1;
      expect((await refusal(driver.create(spec, call))).message).toContain("incomplete stream");
      const { guid } = datasetOf(double, landing);
      double.jobs.ms = 60_000;
      const cut = refusal(driver.create(spec, call));
      await begun(double);
      double.restart();
      expect((await cut).code).toBe("unavailable");
      expect(datasetOf(double, landing).guid).toBe(guid);
      expect(await volumeIds(driver)).toEqual(["pvc-1"]);
      double.jobs.ms = 0;
      await driver.create(spec, call);
      expect(datasetOf(double, `${parent}/copy`)).toMatchObject({ content: "data" });
      expect(double.streams).toEqual([{ target: landing, part: "rest" }]);
      for (const id of ["copy", "pvc-1"]) await driver.delete(id, call);
      expect(remainsOf(double)).toEqual([]);
    });
  });

  test("begins again where the unfinished one can never be continued", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      await madeSource(double);
      double.breaks = 1;
      await refusal(driver.create(spec, call));
      // As if the snapshot had been destroyed and taken again under its name.
      for (const snapshot of Object.values(double.state.snapshots)) snapshot.guid = "77";
      const { message } = await refusal(driver.create(spec, call));
      expect(message).toContain("no longer the same snapshot");
      await driver.create(spec, call);
      expect(datasetOf(double, `${parent}/copy`)).toMatchObject({ content: "data" });
      expect(double.streams).toEqual([{ target: landing, part: "all" }]);
    });
  });

  test("that has also got a snapshot of a periodic task is complete", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      await madeSource(double);
      double.faults.loseOnce(/^pool\.dataset\.update$/, "before");
      await refusal(driver.create(spec, call));
      const [own] = Object.values(double.state.snapshots).filter(({ dataset }) => dataset === landing);
      if (!own) throw new Error("the copy is not complete");
      double.state.snapshots[`${landing}@auto-2026`] = { ...own, name: "auto-2026", guid: "78", createtxg: 9999 };
      await driver.create(spec, call);
      expect(double.streams).toEqual([{ target: landing, part: "all" }]);
      expect(datasetOf(double, `${parent}/copy`)).toMatchObject({ content: "data" });
    });
  });

  const foreign = { user: {}, native: {}, guid: "4711" };
  test.each([
    ["an empty dataset", foreign],
    ["a dataset with data", { ...foreign, content: "theirs" }],
    ["another replication's unfinished target", { ...foreign, partOf: { guid: "5", snapshot: "s" } }],
  ])("never touches %s that has its name", async (_, more) => {
    await on({ version }, "nfs", async (driver, double) => {
      await madeSource(double);
      const theirs = structuredClone({ ...datasetOf(double, `${parent}/pvc-1`), name: landing, ...more });
      if (!("content" in more)) delete theirs.content;
      double.state.datasets[landing] = structuredClone(theirs);
      const { code, message } = await refusal(driver.create(spec, call));
      expect(code).toMatch(/^(?:failed-precondition|unavailable)$/);
      expect(message).toContain(`${landing} exists, and neither its properties nor its snapshots prove`);
      expect(replications(double)).toEqual([]);
      expect(double.state.datasets[landing]).toEqual(theirs);
      await driver.delete("copy", call);
      expect(double.state.datasets[landing]).toEqual(theirs);
    });
  });

  test("never asks to overwrite what comes between its look and the replication", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      await madeSource(double);
      double.intercept = method => {
        if (method === copyMethod)
          double.state.datasets[landing] ??= { ...datasetOf(double, "tank"), name: landing, guid: "4711" };
        return undefined;
      };
      const { message } = await refusal(driver.create(spec, call));
      expect(message).toContain("neither its properties nor its snapshots prove");
      expect(double.streams).toEqual([]);
      expect(datasetOf(double, landing).guid).toBe("4711");
    });
  });

  test("below an encrypted dataset is encrypted by it, and one that was interrupted continues", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      datasetOf(double, "tank").native["encryption"] = "aes-256-gcm";
      await madeSource(double);
      double.breaks = 1;
      await refusal(driver.create(spec, call));
      await driver.create(spec, call);
      expect(datasetOf(double, `${parent}/copy`)).toMatchObject({ content: "data" });
      expect(double.streams).toEqual([{ target: landing, part: "rest" }]);
    });
  });

  test("of an encrypted volume into a dataset without encryption is refused, as it would not be encrypted", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      await madeSource(double);
      datasetOf(double, `${parent}/pvc-1`).native["encryption"] = "aes-256-gcm";
      expect(await refusal(driver.create(spec, call))).toMatchObject({
        code: "failed-precondition",
        message: expect.stringContaining(`a copy below ${parent} would not be encrypted`),
      });
      expect(replications(double)).toEqual([]);
      expect(Object.keys(double.state.snapshots)).toEqual([]);
    });
  });

  test.each([
    ["whose source is locked", `${parent}/pvc-1`],
    ["below a locked dataset", parent],
  ])("%s is refused, and leaves nothing", async (_, name) => {
    await on({ version }, "nfs", async (driver, double) => {
      await madeSource(double);
      for (const each of [`${parent}/pvc-1`, parent]) datasetOf(double, each).native["encryption"] = "aes-256-gcm";
      datasetOf(double, name).locked = true;
      expect(await refusal(driver.create(spec, call))).toMatchObject({
        code: "failed-precondition",
        message: expect.stringContaining(`${name} is encrypted and locked`),
      });
      expect(replications(double)).toEqual([]);
      expect(double.state.datasets[landing]).toBeUndefined();
      expect(Object.keys(double.state.snapshots)).toEqual([]);
    });
  });

  test("is never aborted by a csimux that ends; its successor joins the job, and a deletion waits for it", async () => {
    const rig = await truenasRig("nfs", { version });
    const { double } = rig;
    await madeSource(double);
    const release = double.jobs.hold();
    const dying = rig.open();
    const cut = refusal(dying.create(spec, call));
    await begun(double);
    await dying.close?.();
    await cut;
    expect(double.requests.filter(({ method }) => method === "core.job_abort")).toEqual([]);
    const successor = rig.open();
    expect(await refusal(successor.delete("copy", call))).toMatchObject({ code: "aborted" });
    expect(double.state.datasets[landing]).toBeDefined();
    expect(await volumeIds(successor)).toEqual(["pvc-1"]);
    const before = double.jobs.looks;
    const joined = successor.create(spec, call);
    while (double.jobs.looks === before) await pause(2);
    release();
    await joined;
    expect(replications(double)).toHaveLength(1);
    expect(double.streams).toEqual([{ target: landing, part: "all" }]);
    expect(datasetOf(double, `${parent}/copy`)).toMatchObject({ content: "data" });
    await rig.close();
  });

  test("whose job someone aborted is judged by its dataset: the stream that continues is neither doubled nor destroyed", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      await madeSource(double);
      const release = double.jobs.hold();
      const cut = refusal(driver.create(spec, call));
      await begun(double);
      double.jobs.abort(1);
      expect((await cut).code).not.toBe("ok");
      expect((await refusal(driver.delete("copy", call))).code).toBe("aborted");
      expect(double.receiving.has(landing)).toBe(true);
      release();
      await driver.create(spec, call);
      expect(double.streams).toEqual([{ target: landing, part: "all" }]);
      expect(datasetOf(double, `${parent}/copy`)).toMatchObject({ content: "data" });
    });
  });

  test("whose stream breaks survives an interruption at any step of its continuation", async () => {
    const rig = await truenasRig("nfs", { version });
    await madeSource(rig.double);
    datasetOf(rig.double, "tank").native["encryption"] = "aes-256-gcm";
    const broken = async () => {
      rig.double.breaks = 1;
      await refusal(rig.open().create(spec, call));
    };
    for (const ends of ["created", "deleted"] as const) {
      await broken();
      await atEachStep(
        (step, when) => {
          const { driver, dead } = rig.dying(step, when);
          return { work: () => driver.create(spec, call), dead };
        },
        async step => {
          if (ends === "created") await rig.open().create(spec, call);
          if (ends === "created")
            expect([step, datasetOf(rig.double, `${parent}/copy`).content]).toEqual([step, "data"]);
          await rig.open().delete("copy", call);
          expect([step, remainsOf(rig.double).filter(name => /copy|recv|@/.test(name))]).toEqual([step, []]);
          await broken();
        },
      );
      await rig.open().delete("copy", call);
    }
    expect(new Set(rig.double.streams.map(({ part }) => part))).toContain("rest");
    await rig.open().delete("pvc-1", call);
    expect(await rig.remains()).toEqual([]);
    await rig.close();
  }, 180_000);
});

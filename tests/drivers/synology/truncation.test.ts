import { expect, test } from "bun:test";
import { isFinal } from "../../../lib/core/errors.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { callWith, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { cutsOf, type Mangling, manglings } from "../../contract/truncation.ts";
import { drawn } from "../../sample.ts";
import { type DsmRig, dsmRig } from "./dsm-rig.ts";
import { folderRig } from "./folder-rig.ts";

/** Answers to requests that are not among those of the operation, or say nothing. */
const others = [
  '{"success":true}',
  '{"success":true,"data":{"volume":{}}}',
  '{"success":true,"data":[]}',
  "null",
  "[]",
];

/** Two volumes, one of them with a snapshot. */
async function filled(open: () => Promise<DsmRig>) {
  const rig = await open();
  const driver = rig.open();
  const call = callWith();
  const a = await driver.create(volumeOf("a"), call);
  const b = await driver.create(volumeOf("b"), call);
  const snapshot = await snapshotsOf(driver).create("s", b.id, {}, call);
  return { rig, driver, a, b, snapshot };
}

/** What is there; each system has UUIDs of its own, by which targets are named. */
const remainsOf = async (rig: DsmRig): Promise<readonly string[]> =>
  (await rig.remains()).map(each => each.replace(/^(target .*)\.[0-9a-f]{8}$/, "$1"));

type World = Awaited<ReturnType<typeof filled>>;
type Work = (driver: Driver, world: World) => Promise<unknown>;

/** One operation on a system of its own, whose n-th answer is mangled; "refused" (for good: "final"), or what it answered, and what is there then. */
async function run(open: () => Promise<DsmRig>, work: Work, at: number, mangling: Mangling | undefined) {
  const world = await filled(open);
  const { rig, driver } = world;
  const answers: { readonly text: string; readonly request: string }[] = [];
  rig.dsm.mangle = (text, request) => {
    answers.push({ text, request });
    return mangling && answers.length - 1 === at ? mangling.mangled(text) : text;
  };
  const there = await remainsOf(rig);
  try {
    const outcome = await work(driver, world).then(
      value => JSON.stringify(value ?? null),
      error => (isFinal(error) ? "final" : "refused"),
    );
    rig.dsm.mangle = undefined;
    return { outcome, answers, before: there, remains: await remainsOf(rig) };
  } finally {
    await rig.close();
  }
}

const call = callWith();
const operations: readonly (readonly [string, Work])[] = [
  ["list volumes", driver => volumeIds(driver)],
  ["list snapshots", async driver => (await snapshotIds(driver)).length],
  ["delete a volume", (driver, { a }) => driver.delete(a.id, call)],
  ["delete a volume with a snapshot", (driver, { b }) => driver.delete(b.id, call)],
  ["delete a snapshot", (driver, { snapshot }) => snapshotsOf(driver).delete(snapshot.id, call)],
  ["make a volume", async driver => (await driver.create(volumeOf("c"), call)).id],
  ["clone a volume", async driver => (await driver.create(volumeOf("c", gib, { kind: "volume", id: "a" }), call)).id],
  ["take a snapshot", async driver => (await snapshotsOf(driver).create("t", "b", {}, call)).volumeId],
  ["make one that exists in another size", async driver => (await driver.create(volumeOf("a", gib * 2n), call)).id],
];
const systems: readonly (readonly [string, () => Promise<DsmRig>])[] = [
  ["synology-iscsi", () => dsmRig()],
  ["synology-nfs", () => folderRig("nfs")],
];
const cases = systems.flatMap(([name, open]) => operations.map(([what, work]) => [name, what, open, work] as const));

test.each(cases)(
  "%s: truncated, doubled or misplaced answers cause no wrong result: %s",
  async (_name, _operation, open, work) => {
    const whole = await run(open, work, -1, undefined);
    const wrong: string[] = [];
    for (const [at, { text, request }] of whole.answers.entries()) {
      // Every beginning of the text of a mapping reads the same: as no JSON. So a few of them stand for all.
      for (const end of cutsOf(text)) expect(() => JSON.parse(text.slice(0, end))).toThrow();
      // The answer about another volume looks the same as the one about this volume: DSM names neither.
      const swapped = whole.answers.filter(other => other.request !== request).map(other => other.text);
      for (const mangling of drawn(manglings(text, [...others, ...new Set(swapped)], 1), 4, at)) {
        const { outcome, remains } = await run(open, work, at, mangling);
        const what = `answer ${at} ${text.slice(0, 60)}: ${mangling.name}: ${outcome}`;
        const isRefused = outcome === "refused" || outcome === "final";
        if (!isRefused && outcome !== whole.outcome) wrong.push(`${what} instead of ${whole.outcome}`);
        if (!isRefused && String(remains) !== String(whole.remains)) wrong.push(`${what}, left ${remains}`);
        // Nobody would ever delete that.
        const left = remains.filter(each => !whole.before.includes(each));
        if (outcome === "final" && left.length > 0) wrong.push(`${what}, left ${left}`);
        const gone = whole.before.filter(each => whole.remains.includes(each) && !remains.includes(each));
        if (gone.length > 0) wrong.push(`${what}, gone ${gone}`);
      }
    }
    expect(wrong.slice(0, 12)).toEqual([]);
  },
  300_000,
);

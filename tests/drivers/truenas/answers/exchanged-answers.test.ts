import { expect, test } from "bun:test";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { callWith, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../../contract/rig.ts";
import { startDouble } from "../../../fakes/truenas/double.ts";
import { openOn, type Protocol, remainsOf } from "../rig.ts";

const call = callWith();

interface Answer {
  readonly method: string;
  readonly answer: object;
}

/** One operation on a system of its own with two volumes, whose n-th answer is another one. */
async function run(
  protocol: Protocol,
  work: (driver: Driver, snapshot: string) => Promise<unknown>,
  at: number,
  instead?: object,
) {
  const double = await startDouble({ version: "25.10" });
  const driver = openOn(double, protocol);
  try {
    for (const name of ["a", "b"]) await driver.create(volumeOf(name), call);
    const { id } = await snapshotsOf(driver).create("s", "b", {}, call);
    const before = remainsOf(double);
    const answers: Answer[] = [];
    double.mangle = (answer, method) => {
      answers.push({ method, answer });
      return instead !== undefined && answers.length - 1 === at ? instead : answer;
    };
    const outcome = await work(driver, id).then(
      value => JSON.stringify(value ?? null),
      () => "refused",
    );
    double.mangle = undefined;
    return { outcome, answers, before, remains: remainsOf(double) };
  } finally {
    await driver.close?.();
    await double.close();
  }
}

const operations: readonly (readonly [string, (driver: Driver, snapshot: string) => Promise<unknown>])[] = [
  ["list volumes", driver => volumeIds(driver)],
  ["list snapshots", driver => snapshotIds(driver)],
  ["delete a volume", driver => driver.delete("a", call)],
  ["delete a volume with a snapshot", driver => driver.delete("b", call)],
  ["delete a snapshot", (driver, snapshot) => snapshotsOf(driver).delete(snapshot, call)],
  ["make a volume", async driver => (await driver.create(volumeOf("c"), call)).id],
  ["make one that exists in another size", async driver => (await driver.create(volumeOf("a", gib * 2n), call)).id],
];

const isList = ({ result }: { readonly result?: unknown }): boolean => Array.isArray(result);
/** Results that no method of these answers. */
const odd: readonly object[] = [{ result: "x" }, { result: {} }, { result: 7 }, {}];

const cases = (["nfs", "iscsi"] as const).flatMap(protocol =>
  operations.map(([what, work]) => [protocol, what, work] as const),
);

test.each(cases)(
  "%s: an answer of TrueNAS other than a list never leads to a wrong answer: %s",
  async (protocol, _operation, work) => {
    const whole = await run(protocol, work, -1);
    const wrong: string[] = [];
    for (const [at, { method, answer }] of whole.answers.entries()) {
      // Another list or error cannot be recognized: the answer of a query does not name the query.
      if (!isList(answer)) continue;
      const others = whole.answers.map(other => other.answer).filter(other => "result" in other && !isList(other));
      for (const instead of [...odd, { result: null }, { result: true }, ...others]) {
        const { outcome, remains } = await run(protocol, work, at, instead);
        const what = `answer ${at} of ${method}: ${JSON.stringify(instead).slice(0, 60)}: ${outcome}`;
        if (outcome !== "refused" && outcome !== whole.outcome) wrong.push(`${what} instead of ${whole.outcome}`);
        if (outcome !== "refused" && String(remains) !== String(whole.remains)) wrong.push(`${what}, left ${remains}`);
        const gone = whole.before.filter(each => whole.remains.includes(each) && !remains.includes(each));
        if (gone.length > 0) wrong.push(`${what}, gone ${gone}`);
      }
    }
    expect(wrong.slice(0, 12)).toEqual([]);
  },
  120_000,
);

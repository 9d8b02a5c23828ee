import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { nextStep } from "../../lib/copies/next-step.ts";

type Operation = Parameters<typeof nextStep>[0];
type Known = Parameters<typeof nextStep>[1];

const record = (state: "copying" | "ready" | "finished" | "cancelled", frozen?: number): Known["record"] => ({
  state,
  pass: 2,
  frozen,
});

/** What each row of the table can be. The last pass is number 2; 3 is the first one after the source was stopped for "too early". */
const records: Readonly<Record<string, readonly Known["record"][]>> = {
  none: [undefined],
  copying: [record("copying"), record("copying", 2), record("copying", 3)],
  ready: [record("ready"), record("ready", 2)],
  "too early": [record("ready", 3)],
  finished: [record("finished"), record("finished", 3)],
  cancelled: [record("cancelled"), record("cancelled", 3)],
};

const leases: Readonly<Record<string, readonly Known["lease"][]>> = { free: ["none", "expired"], held: ["held"] };

/** The table above nextStep, which is what its readers believe. */
const [columns = [], , ...rows] = readFileSync("lib/copies/next-step.ts", "utf8")
  .split("\n")
  .filter(line => line.startsWith(" * |"))
  .map(line =>
    line
      .split("|")
      .slice(1, -1)
      .map(cell => cell.trim()),
  );

test("the table has a row for each record and lease, and a column for each operation", () => {
  const wanted = Object.keys(records).flatMap(each => Object.keys(leases).map(lease => `${each}, ${lease}`));
  // Without a record there is no lease.
  expect(rows.map(([state, lease]) => `${state}, ${lease}`)).toEqual(wanted.filter(each => each !== "none, held"));
  expect(columns.slice(2)).toEqual(["create", "delete", "pass", "finish", "cancel", "clean-up"]);
});

test.each(rows)("a record that is %s, with a lease that is %s: %s, %s, %s, %s, %s, %s", (state, lease, ...steps) => {
  const operations = columns.slice(2) as Operation[];
  for (const known of records[state ?? ""] ?? [])
    for (const held of leases[lease ?? ""] ?? [])
      expect(operations.map(each => nextStep(each, { record: known, lease: held }) as string)).toEqual(steps);
});

test("a complete volume is answered, gets no further pass, and is no longer cancelled, whatever its record says", () => {
  for (const state of Object.values(records).flat())
    for (const lease of ["none", "expired", "held"] as const) {
      const known = { record: state, isVolume: true, lease };
      const steps = (["create", "pass", "cancel"] as const).map(each => nextStep(each, known));
      expect(steps).toEqual(["answer", "refuse", "refuse"]);
    }
});

test("a copy that was asked for lately stays, and the record of a finished one does not", () => {
  const at = (state: Known["record"]) => nextStep("clean-up", { record: state, lease: "none", isWanted: true });
  expect([record("copying"), record("ready"), record("cancelled"), record("finished")].map(at)).toEqual([
    "nothing",
    "nothing",
    "nothing",
    "forget",
  ]);
});

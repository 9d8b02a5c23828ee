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

const there = (...found: readonly Known["record"][]) =>
  found.map(each => ({ record: each, isVolume: false, hasContent: true }));
const present = there(record("copying"), record("copying", 2), record("copying", 3));
const complete = there(record("ready"), record("ready", 2));
const early = there(record("ready", 3));
const finished = there(record("finished"), record("finished", 3));
const cancelled = there(record("cancelled"), record("cancelled", 3));

/** What each row of the table can be. The last pass is number 2; 3 is the first one after the source was stopped for "too early". */
const records: Readonly<Record<string, readonly Omit<Known, "lease">[]>> = {
  ...{ none: there(undefined), copying: present, ready: complete, "too early": early },
  gone: [...complete, ...early].map(each => ({ ...each, hasContent: false })),
  ...{ finished, cancelled },
  volume: [...present, ...complete, ...early, ...cancelled].map(each => ({ ...each, isVolume: true })),
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
      expect(operations.map(each => nextStep(each, { ...known, lease: held }) as string)).toEqual(steps);
});

test("a complete volume without a record is answered, gets no pass, and can no longer be cancelled", () => {
  const known = { record: undefined, isVolume: true, hasContent: true, lease: "none" } as const;
  const steps = (columns.slice(2) as Operation[]).map(each => nextStep(each, known));
  expect(steps).toEqual(["answer", "nothing", "refuse", "answer", "refuse", "nothing"]);
});

test("a copy that was asked for lately stays, and the record of a finished one does not", () => {
  const at = (known: Omit<Known, "lease">) => nextStep("clean-up", { ...known, lease: "none", isWanted: true });
  const all = Object.entries(records).map(([state, [known]]) => [state, known && at(known)]);
  const forgotten = ["finished", "volume"];
  expect(all).toEqual(Object.keys(records).map(each => [each, forgotten.includes(each) ? "forget" : "nothing"]));
});

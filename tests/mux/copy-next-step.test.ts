import { expect, test } from "bun:test";
import { nextStep } from "../../lib/copies/next-step.ts";

type Asked = Parameters<typeof nextStep>[0];
type Known = Parameters<typeof nextStep>[1];
type Step = ReturnType<typeof nextStep>;

const record = (state: "copying" | "ready" | "finished" | "cancelled", frozen?: number): Known["record"] => ({
  state,
  pass: 2,
  frozen,
});

/** All states of a copy. The last pass is number 2: "stopped" could begin after the source was stopped, "early" did not. */
const states = {
  none: undefined,
  copying: record("copying"),
  ready: record("ready"),
  stopped: record("ready", 2),
  early: record("ready", 3),
  finished: record("finished"),
  cancelled: record("cancelled"),
} as const;

/** The steps by state: without another process at work, and with one. */
const table: Readonly<Record<Asked, Readonly<Record<keyof typeof states, readonly [Step, Step]>>>> = {
  create: {
    none: ["begin", "begin"],
    copying: ["continue", "wait"],
    ready: ["finish", "wait"],
    stopped: ["finish", "wait"],
    early: ["finish", "wait"],
    finished: ["finish", "wait"],
    cancelled: ["remove", "remove"],
  },
  delete: {
    none: ["nothing", "nothing"],
    copying: ["remove", "wait"],
    ready: ["remove", "wait"],
    stopped: ["remove", "wait"],
    early: ["remove", "wait"],
    finished: ["release", "wait"],
    cancelled: ["remove", "wait"],
  },
  pass: {
    none: ["refuse", "refuse"],
    copying: ["continue", "wait"],
    ready: ["next-pass", "wait"],
    stopped: ["next-pass", "wait"],
    early: ["next-pass", "wait"],
    finished: ["refuse", "refuse"],
    cancelled: ["refuse", "refuse"],
  },
  finish: {
    none: ["answer", "answer"],
    copying: ["refuse", "refuse"],
    ready: ["finish", "finish"],
    stopped: ["finish", "finish"],
    early: ["refuse", "refuse"],
    finished: ["finish", "finish"],
    cancelled: ["refuse", "refuse"],
  },
  cancel: {
    none: ["nothing", "nothing"],
    copying: ["mark", "mark"],
    ready: ["mark", "mark"],
    stopped: ["mark", "mark"],
    early: ["mark", "mark"],
    finished: ["refuse", "refuse"],
    cancelled: ["remove", "wait"],
  },
  "clean-up": {
    none: ["nothing", "nothing"],
    copying: ["remove", "nothing"],
    ready: ["remove", "nothing"],
    stopped: ["remove", "nothing"],
    early: ["remove", "nothing"],
    finished: ["release", "nothing"],
    cancelled: ["remove", "nothing"],
  },
};

const cases = Object.entries(table).flatMap(([asked, rows]) =>
  Object.entries(rows).map(([state, steps]) => [asked as Asked, state as keyof typeof states, steps] as const),
);

test.each(cases)("%s of a copy that is %s", (asked, state, [alone, taken]) => {
  const at = (lease: Known["lease"]) => nextStep(asked, { record: states[state], lease });
  expect([at("none"), at("expired"), at("held")]).toEqual([alone, alone, taken]);
});

test("a complete volume is answered, and no longer cancelled, whatever its record says", () => {
  for (const state of Object.values(states)) {
    const known = { record: state, isVolume: true, lease: "held" } as const;
    expect([nextStep("create", known), nextStep("cancel", known)]).toEqual(["answer", "refuse"]);
  }
});

test("a copy that was asked for lately stays, and the record of a finished one does not", () => {
  const at = (state: Known["record"]) => nextStep("clean-up", { record: state, lease: "none", isWanted: true });
  expect([states.copying, states.ready, states.cancelled, states.finished].map(at)).toEqual([
    "nothing",
    "nothing",
    "nothing",
    "release",
  ]);
});

import { expect, test } from "bun:test";
import { ConditionTracker } from "../../lib/health/condition-tracker.ts";
import { allReasons, type Reason, reasonText } from "../../lib/health/reasons.ts";

const hold = 100;

/** A model and its clock. */
function world() {
  let now = 0;
  const steady = new ConditionTracker(hold, () => now);
  const see = (...reasons: readonly Reason[]) =>
    steady
      .record(
        "a",
        reasons.map(reason => ({ reason, message: `${reason} at ${now}` })),
      )
      .map(each => `${each.came ? "+" : "-"}${each.reason}`);
  const wait = (ms: number): void => {
    now += ms;
  };
  return { steady, see, wait };
}

test("a cause counts once two checks have found it, and is cleared after two clean checks", () => {
  const { steady, see, wait } = world();
  expect(see("StaleHandle")).toEqual([]);
  wait(hold - 1);
  expect(see("StaleHandle")).toEqual([]);
  wait(1);
  expect(see("StaleHandle")).toEqual(["+StaleHandle"]);
  wait(40);
  expect(steady.of("a")).toEqual([{ reason: "StaleHandle", message: "StaleHandle at 100", ms: 40 }]);
  expect(see()).toEqual([]);
  wait(hold);
  expect(see()).toEqual(["-StaleHandle"]);
  expect(steady.tracked()).toEqual([]);
});

test("a cause that alternates between checks never counts, and one that is missing only briefly is never cleared", () => {
  const { see, wait } = world();
  const told: string[] = [];
  for (let round = 0; round < 50; round++) {
    told.push(...see(...(round % 2 === 0 ? (["PathsLost"] as const) : [])));
    wait(60);
  }
  expect(told).toEqual([]);
  see("PathsLost");
  wait(hold);
  expect(see("PathsLost")).toEqual(["+PathsLost"]);
  for (let round = 0; round < 50; round++) {
    told.push(...see(...(round % 2 === 0 ? [] : (["PathsLost"] as const))));
    wait(60);
  }
  expect(told).toEqual([]);
});

test("the first check of a process counts immediately, except for a loss", () => {
  const { steady } = world();
  const found = (["PoolDegraded", "VolumeMissing"] as const).map(reason => ({ reason, message: "" }));
  expect(steady.record("a", found, true).map(({ reason }) => reason)).toEqual(["PoolDegraded"]);
});

/** A generator of numbers that gives the same for the same seed (mulberry32). */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** One look of a sequence: when, and whether the cause was seen. */
interface Look {
  readonly at: number;
  readonly seen: boolean;
}

/** Whether all looks of the last `hold` ms, and the one at or before their beginning, agree on `seen`. */
function lasted(looks: readonly Look[], seen: boolean): boolean {
  const now = looks.at(-1)?.at ?? 0;
  const disagreeing = looks.findLastIndex(look => look.seen !== seen);
  const since = looks[disagreeing + 1]?.at;
  return since !== undefined && now - since >= hold;
}

function checkSequence(seed: number): number {
  const next = random(seed);
  let now = 0;
  const steady = new ConditionTracker(hold, () => now);
  const reasons = [...allReasons].sort(() => next() - 0.5).slice(0, 3);
  const looks = new Map<Reason, Look[]>(reasons.map(reason => [reason, []]));
  const holding = new Map<Reason, number>();
  const lastChange = new Map<Reason, number>();
  let changed = 0;
  const pace = 1 + next() * hold;
  const causes = new Set<Reason>();
  for (let round = 0; round < 20; round++) {
    now += Math.ceil(next() * pace);
    // A look that failed is not told to the model.
    if (next() < 0.1) continue;
    for (const reason of reasons) {
      if (next() > 0.15) continue;
      if (!causes.delete(reason)) causes.add(reason);
    }
    const found = [...causes];
    for (const [reason, all] of looks) all.push({ at: now, seen: found.includes(reason) });
    const changes = steady.record(
      "a",
      found.map(reason => ({ reason, message: `seen at ${now}` })),
    );
    changed += changes.length;
    for (const { reason, came } of changes) {
      if (came === holding.has(reason)) throw new Error(`seed ${seed}: ${reason} came or went twice`);
      if (now - (lastChange.get(reason) ?? Number.NEGATIVE_INFINITY) < hold)
        throw new Error(`seed ${seed}: ${reason} flaps`);
      if (!lasted(looks.get(reason) ?? [], came)) throw new Error(`seed ${seed}: ${reason} changed too soon`);
      lastChange.set(reason, now);
      if (came) holding.set(reason, now);
      else holding.delete(reason);
    }
    for (const [reason, all] of looks) {
      for (const seen of [true, false])
        if (lasted(all, seen) && holding.has(reason) !== seen)
          throw new Error(`seed ${seed}: ${reason} stays too long`);
    }
    const shown = steady.of("a");
    if (
      shown
        .map(each => each.reason)
        .sort()
        .join() !== [...holding.keys()].sort().join()
    )
      throw new Error(`seed ${seed}: what is shown is not what came and has not gone`);
    if (shown.some(({ reason, ms }) => ms !== now - (holding.get(reason) ?? 0)))
      throw new Error(`seed ${seed}: wrong age`);
    if (steady.subjects().length > 0 !== holding.size > 0) throw new Error(`seed ${seed}: subjects`);
  }
  return changed;
}

test("in 10,000 random sequences of causes nothing flaps, comes or goes too soon, or stays too long", () => {
  let changed = 0;
  for (let seed = 1; seed <= 10_000; seed++) changed += checkSequence(seed);
  expect(changed).toBeGreaterThan(10_000);
}, 60_000);

test("every reason is CamelCase and says what has happened and what to do", () => {
  for (const reason of allReasons) {
    const { cause, remedy } = reasonText(reason);
    expect(reason).toMatch(/^[A-Z][a-z]+(?:[A-Z][a-z]+)*$/);
    expect(cause.length > 10 && remedy.length > 5).toBe(true);
  }
});

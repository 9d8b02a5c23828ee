import { expect } from "bun:test";
import { setImmediate as turn } from "node:timers/promises";
import { CsiError, isFinal } from "../../../lib/core/errors.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { drawn, seed } from "../../sample.ts";
import { codeOf } from "../driver-volumes.ts";
import type { DriverRig } from "../rig.ts";

const manySteps = 200;

/** How often a caller repeats what is not final, before the other one continues. */
const tries = 20;

/** The second acts before this step of the first, a third before a later one, and the first finds the storage full at the step `fails`, if at any. */
interface Plan {
  readonly at: number;
  readonly third: number;
  readonly fails: number;
}

const never = Number.POSITIVE_INFINITY;

/** What came of a meeting of two controllers, or of three, of which the last two do the same. */
export interface Meeting {
  readonly plan: string;
  readonly steps: number;
  /** The code of the first's answer. */
  readonly first: string;
  /** The code of the second's, or the third's if there was one; undefined if the first got through before. */
  readonly second: string | undefined;
  /** The first had read what there was before that one acted. */
  readonly hadRead: boolean;
}

/** What two controllers do. */
export interface Scene {
  /** What the storage has before. */
  prepare?(driver: Driver): Promise<unknown>;
  first(driver: Driver): Promise<unknown>;
  second(driver: Driver): Promise<unknown>;
  /** What must hold. Leaves the storage as `prepare` finds it. */
  check(meeting: Meeting): Promise<void>;
}

/** What callers do: they repeat what is not final. */
export async function repeated<T>(work: () => Promise<T>, most = tries): Promise<T> {
  for (let left = most; ; left--) {
    try {
      return await work();
    } catch (error) {
      if (left === 0 || !(error instanceof CsiError) || isFinal(error)) throw error;
      await turn();
    }
  }
}

/** Whether a step names an object of the scenes. */
const namesObject = (about: string): boolean => /pvc-1|snap/.test(about);

async function meeting(rig: DriverRig, scene: Scene, { at, third, fails }: Plan): Promise<Meeting> {
  await scene.prepare?.(rig.open());
  const { reads = namesObject, unconditional } = rig;
  const acting = new Set([at, third]);
  let second: Promise<string> | undefined;
  let steps = 0;
  let hasRead = false;
  let hadRead = false;
  let before = "";
  let last = "";
  let isOver = false;
  const driver = rig.after(async (step, about) => {
    steps = step;
    const proof = last;
    last = about;
    // What the first began side by side may arrive after it has ended.
    if (acting.has(step) && !isOver && !unconditional?.(about, proof)) {
      before += `${about} `;
      hadRead = hasRead;
      second = codeOf(repeated(() => scene.second(rig.open())));
    }
    // The first stands still, also with steps that run side by side.
    await second;
    hasRead ||= reads(about);
    return step === fails ? "full" : "run";
  });
  const first = await codeOf(scene.first(driver));
  isOver = true;
  const plan = `step ${at}${third === never ? "" : ` and ${third}`}${fails === never ? "" : `, full at ${fails}`}: ${before}`;
  // Of steps that run side by side, another one may have ended the first.
  return { plan, steps, first, second: await second, hadRead };
}

const upTo = (first: number, last: number): readonly number[] =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);

/** Plays a scene with the second acting before each step of the first, with a third acting after it, then with each step failing before or while the second acts. */
export async function played(rig: DriverRig, scene: Scene): Promise<void> {
  const play = async (plan: Plan): Promise<Meeting> => {
    const met = await meeting(rig, scene, plan);
    await scene.check(met);
    return met;
  };
  const { steps, first } = await play({ at: never, third: never, fails: never });
  expect([first, steps > 0, steps < manySteps]).toEqual(["ok", true, true]);
  for (const at of drawn(upTo(1, steps), 3)) await play({ at, third: never, fails: never });
  // All pairs of steps would be hundreds: each step of the second has one later step, of which another seed draws another one.
  for (const at of drawn(upTo(1, steps - 1), 3, 1))
    await play({ at, third: at + 1 + ((seed + at) % (steps - at)), fails: never });
  for (const fails of drawn(upTo(1, steps), 2)) {
    // What is undone is undone in steps after the failure.
    const { steps: last } = await play({ at: never, third: never, fails });
    for (const at of drawn(upTo(fails, last), 3)) await play({ at, third: never, fails });
  }
}

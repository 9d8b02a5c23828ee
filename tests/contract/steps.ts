import { expect } from "bun:test";
import type { CommandRunner } from "../../lib/io/runner.ts";
import { everything, seed } from "../sample.ts";

/** More steps than any operation has. */
const manySteps = 200;

/**
 * On which side of a step a process dies. Before one, it leaves what it leaves after the one before, because nothing that it does later has
 * an effect: so either side shows everything that it can leave, and the seed draws which.
 */
export const sides: readonly ("before" | "after")[] = everything
  ? ["before", "after"]
  : [seed % 2 === 0 ? "before" : "after"];

/** An operation of a process that ends at one of its steps. */
export interface Mortal {
  work(): Promise<unknown>;
  /** Whether it got to that step. */
  dead(): boolean;
}

/**
 * Runs an operation again and again, interrupted at its first step, its second, and so on until it gets through; after each
 * interruption `check` inspects the storage and must not change it. `isChosen`: which steps; all when absent.
 */
export async function atEachStep(
  begin: (step: number, when: "before" | "after") => Mortal,
  check: (step: string) => Promise<void>,
  isChosen: (step: number) => boolean = () => true,
): Promise<void> {
  for (const when of sides) {
    for (let step = 1; ; step++) {
      expect(step).toBeLessThan(manySteps);
      if (!isChosen(step)) continue;
      const { work, dead } = begin(step, when);
      const failed = await work().then(
        () => false,
        () => true,
      );
      await check(`${when} step ${step}`);
      if (!dead()) {
        expect([step, failed]).toEqual([step, false]);
        break;
      }
    }
  }
}

/** Runs a step of a storage, or fails in its place; `about` says what it does, and to what. */
export type Step = <T>(work: () => T | Promise<T>, about?: string) => Promise<T>;

/** What happens before a step, counted from 1. After "full" the storage has no room for it, and does nothing. */
export type Before = (step: number, about: string) => "run" | "full" | Promise<"run" | "full">;

/** Counts steps; resolves to whether there is room for this one. */
export function counted(before: Before): (about: string) => Promise<boolean> {
  let count = 0;
  return async about => (await before(++count, about)) === "run";
}

/** A process that ends at its n-th step, before it takes effect or just after; from then on nothing has any effect. */
export function mortal(last: number, when: "before" | "after"): { readonly step: Step; dead(): boolean } {
  let count = 0;
  const died = () => new Error("the process was killed");
  const step: Step = async work => {
    count++;
    if (count > last || (count === last && when === "before")) throw died();
    const result = await work();
    if (count === last) throw died();
    return result;
  };
  return { step, dead: () => count >= last };
}

/** The steps of a disk that can be full. */
export function stepsAfter(before: Before): Step {
  const hasRoom = counted(before);
  return async (work, about = "") => {
    if (await hasRoom(about)) return work();
    throw Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
  };
}

/** A runner whose commands are steps; `full` is what one prints that finds no room. */
export function commandsAfter(runner: CommandRunner, before: Before, full: string): CommandRunner {
  const hasRoom = counted(before);
  const run: CommandRunner["run"] = async (command, signal) =>
    (await hasRoom(command.argv.join(" "))) ? runner.run(command, signal) : { stdout: "", stderr: full, exitCode: 1 };
  return { ...runner, run };
}

type Verb = (...args: readonly unknown[]) => Promise<unknown>;

/** An interface whose members are all asynchronous, such as the file system calls of a driver: each call is a step. */
export function inSteps<Calls extends object>(calls: Calls, step: Step): Calls {
  const verbs = Object.entries(calls as unknown as Record<string, Verb>);
  const wrapped = verbs.map(([name, verb]) => [
    name,
    (...args: readonly unknown[]) => step(() => verb(...args), [name, ...args].join(" ")),
  ]);
  return Object.fromEntries(wrapped) as unknown as Calls;
}

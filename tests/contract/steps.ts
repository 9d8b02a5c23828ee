import { expect } from "bun:test";
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
 * interruption `check` inspects the storage and must not change it.
 */
export async function atEachStep(
  begin: (step: number, when: "before" | "after") => Mortal,
  check: (step: string) => Promise<void>,
): Promise<void> {
  for (const when of sides) {
    for (let step = 1; ; step++) {
      expect(step).toBeLessThan(manySteps);
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

/** Runs a step of a storage, or fails in its place. */
export type Step = <T>(work: () => T | Promise<T>) => Promise<T>;

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

/** A disk that is full at its n-th step, and at no other. */
export function fullDisk(at: number): { readonly step: Step; failed(): boolean } {
  let count = 0;
  const step: Step = async work => {
    if (++count !== at) return work();
    throw Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
  };
  return { step, failed: () => count >= at };
}

type Verb = (...args: readonly unknown[]) => Promise<unknown>;

/** An interface whose members are all asynchronous, such as the file system calls of a driver: each call is a step. */
export function inSteps<Calls extends object>(calls: Calls, step: Step): Calls {
  const verbs = Object.entries(calls as unknown as Record<string, Verb>);
  const wrapped = verbs.map(([name, verb]) => [name, (...args: readonly unknown[]) => step(() => verb(...args))]);
  return Object.fromEntries(wrapped) as unknown as Calls;
}

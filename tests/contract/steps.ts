import { expect } from "bun:test";

/** More steps than any operation has. */
const manySteps = 200;

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
  for (const when of ["before", "after"] as const) {
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

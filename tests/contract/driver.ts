import { describe, expect, test } from "bun:test";
import { interruptionCases } from "./driver-interruptions.ts";
import { snapshotCases } from "./driver-snapshots.ts";
import { volumeCases } from "./driver-volumes.ts";
import type { DriverRig } from "./rig.ts";

/** A behaviour of every driver, as a sentence. */
export type Cases = Readonly<Record<string, (rig: DriverRig) => Promise<void>>>;

const cases: Cases = { ...volumeCases, ...snapshotCases, ...interruptionCases };

/**
 * Checks what every driver owes its callers. `skips` maps the title of a case to the reason why this driver cannot pass it;
 * a title that is no case is an error.
 */
export function driverContract(
  name: string,
  open: () => Promise<DriverRig>,
  skips: Readonly<Record<string, string>> = {},
): void {
  describe(`driver contract: ${name}`, () => {
    test("every skip names a case", () => {
      expect(Object.keys(skips).filter(title => !(title in cases))).toEqual([]);
    });
    for (const [title, run] of Object.entries(cases)) {
      const reason = skips[title];
      test.skipIf(reason !== undefined)(reason === undefined ? title : `${title} (${reason})`, async () => {
        const rig = await open();
        try {
          await run(rig);
        } finally {
          await rig.close();
        }
      });
    }
  });
}

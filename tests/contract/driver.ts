import { describe, expect, test } from "bun:test";
import type { Ability } from "../../lib/drivers/driver.ts";
import { durabilityCases } from "./driver-durability.ts";
import { factCases } from "./driver-facts.ts";
import { failureCases } from "./driver-failures.ts";
import { foreignCases } from "./driver-foreign.ts";
import { groupCases } from "./driver-groups.ts";
import { interruptionCases } from "./driver-interruptions.ts";
import { sizeCases } from "./driver-sizes.ts";
import { snapshotCases } from "./driver-snapshots.ts";
import { volumeCases } from "./driver-volumes.ts";
import type { Case, Cases, Need } from "./needs.ts";
import type { DriverRig } from "./rig.ts";

const cases: Cases = {
  ...volumeCases,
  ...snapshotCases,
  ...interruptionCases,
  ...failureCases,
  ...durabilityCases,
  ...groupCases,
  ...sizeCases,
  ...factCases,
  ...foreignCases,
};

const abilities: readonly Ability[] = [
  "names",
  "reading",
  "expand",
  "snapshots",
  "clones",
  "capacity",
  "inventory",
  "modify",
  "groupSnapshots",
];

/**
 * Checks what every driver owes its callers. `lacks` says what this one has not got, each with the reason; the cases that need
 * it are skipped, and a driver that has it all the same fails.
 */
export function driverContract(
  name: string,
  open: () => Promise<DriverRig>,
  lacks: Readonly<Partial<Record<Need, string>>>,
): void {
  const used = async (run: Case["run"]): Promise<void> => {
    const rig = await open();
    try {
      await run(rig);
    } finally {
      await rig.close();
    }
  };
  describe(`driver contract: ${name}`, () => {
    test("has just the abilities that it does not say it lacks", () =>
      used(async rig => {
        const driver = rig.open();
        expect(abilities.filter(each => driver[each] === undefined)).toEqual(abilities.filter(each => each in lacks));
      }));
    for (const [title, { needs, run }] of Object.entries(cases)) {
      const reasons = needs.flatMap(need => lacks[need] ?? []);
      test.skipIf(reasons.length > 0)([title, ...reasons].join("; skipped: "), () => used(run));
    }
  });
}

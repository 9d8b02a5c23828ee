import { describe, expect, test } from "bun:test";
import type { Ability } from "../../lib/drivers/driver.ts";
import { adoptionCases } from "./driver-adoption.ts";
import { durabilityCases } from "./driver-durability.ts";
import { factCases } from "./driver-facts.ts";
import { failureCases } from "./driver-failures.ts";
import { foreignCases } from "./driver-foreign.ts";
import { generationCases } from "./driver-generations.ts";
import { groupCases } from "./driver-groups.ts";
import { interruptionCases } from "./driver-interruptions.ts";
import { sizeCases } from "./driver-sizes.ts";
import { snapshotCases } from "./driver-snapshots.ts";
import { volumeCases } from "./driver-volumes.ts";
import { type Cases, type Lacks, type Need, testCases, used } from "./needs.ts";
import type { DriverRig } from "./rig.ts";
import { secondWriterCases } from "./second-writer/cases.ts";

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
  ...adoptionCases,
  ...generationCases,
  ...secondWriterCases,
};

/** The abilities that `lacks` can name. */
const abilities: readonly Ability[] = [
  "names",
  "reading",
  "expand",
  "snapshots",
  "clones",
  "capacity",
  "inventory",
  "kept",
  "modify",
  "groupSnapshots",
];

/**
 * Checks what every driver owes its callers. The keys of `lacks` are what this one does not have: abilities, the optional members of Driver in
 * the list above, and traits (`Trait` in needs.ts); each with the reason. The cases that need them are skipped. The first test compares the
 * abilities with the driver; if it fails, correct `lacks` first: all other cases are skipped.
 */
export function driverContract(name: string, open: () => Promise<DriverRig>, lacks: Lacks<Need>): void {
  describe(`driver contract: ${name}`, async () => {
    const present = await used(open, async rig => {
      const driver = rig.open();
      return abilities.filter(each => driver[each] !== undefined);
    });
    const unnamed = abilities.filter(each => !present.includes(each) && !(each in lacks));
    const misnamed = present.filter(each => each in lacks);
    test("has exactly the abilities that lacks does not name", () => {
      const wrong = { "absent, so lacks must name it": unnamed, "present, so lacks must not name it": misnamed };
      expect(wrong).toEqual({ "absent, so lacks must name it": [], "present, so lacks must not name it": [] });
    });
    const contradicted = unnamed.length + misnamed.length > 0 ? ["lacks is wrong, see the first test"] : [];
    testCases(cases, open, lacks, contradicted);
  });
}

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

/** The abilities that `lacks` can name. */
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
 * Checks what every driver owes its callers. The keys of `lacks` are what this one does not have: abilities, the optional members of Driver in
 * the list above, and traits (`Trait` in needs.ts); each with the reason. The cases that need them are skipped. The first test compares the
 * abilities with the driver; if it fails, correct `lacks` first: the other cases then do not run.
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
  let contradicted = false;
  describe(`driver contract: ${name}`, () => {
    test("has exactly the abilities that lacks does not name", () =>
      used(async rig => {
        const driver = rig.open();
        const wrong = {
          "absent, so lacks must name it": abilities.filter(each => driver[each] === undefined && !(each in lacks)),
          "present, so lacks must not name it": abilities.filter(each => driver[each] !== undefined && each in lacks),
        };
        contradicted = Object.values(wrong).some(each => each.length > 0);
        expect(wrong).toEqual({ "absent, so lacks must name it": [], "present, so lacks must not name it": [] });
      }));
    for (const [title, { needs, run }] of Object.entries(cases)) {
      const reasons = needs.flatMap(need => lacks[need] ?? []);
      test.skipIf(reasons.length > 0)([title, ...reasons].join("; skipped: "), async () => {
        if (!contradicted) await used(run);
      });
    }
  });
}

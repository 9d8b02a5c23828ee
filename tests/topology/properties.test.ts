import { describe, expect, test } from "bun:test";
import type { Segments } from "../../lib/core/access.ts";
import { CsiError } from "../../lib/core/errors.ts";
import {
  type AccessibilityRequirements,
  type AccessibleTopology,
  accessibleTopologyFor,
  fitsTerm,
  isReachableFrom,
  type PlacementPolicy,
  segmentsOf,
} from "../../lib/topology/accessible-topology.ts";
import { filled } from "../../lib/topology/pattern.ts";
import { fc } from "../fast-check.ts";

const prefix = "t.example";
const key = fc.constantFrom("region", "zone", "rack");
const value = fc.constantFrom("a", "b", "c");
const ours = fc.dictionary(
  key.map(name => `${prefix}/${name}`),
  value,
  { minKeys: 1, maxKeys: 3 },
);
const foreign = fc.dictionary(fc.constantFrom("x.example/tier", `${prefix}.org/zone`), value, {
  minKeys: 1,
  maxKeys: 2,
});
const term = fc.oneof({ weight: 4, arbitrary: ours }, foreign);
const extra = fc.dictionary(fc.constantFrom("x.example/tier"), value, { maxKeys: 1 });
const places: fc.Arbitrary<readonly AccessibleTopology[]> = fc.array(fc.record({ requirements: ours, extra }), {
  maxLength: 3,
});
const demand: fc.Arbitrary<AccessibilityRequirements> = fc.record({
  requisite: fc.array(term, { maxLength: 4 }),
  preferred: fc.array(term, { maxLength: 4 }),
});
const policy: fc.Arbitrary<PlacementPolicy> = fc.record({
  prefix: fc.constant(prefix),
  match: fc.constantFrom("lenient" as const, "strict" as const),
  report: fc.constantFrom("all" as const, "requisite" as const),
  honourPreferred: fc.constantFrom("off" as const, "first" as const),
});

type Outcome = readonly Segments[] | "resource-exhausted" | "invalid-argument";

function outcome(of: readonly AccessibleTopology[], wanted: AccessibilityRequirements, by: PlacementPolicy): Outcome {
  try {
    return accessibleTopologyFor(of, wanted, by);
  } catch (error) {
    if (error instanceof CsiError && (error.code === "resource-exhausted" || error.code === "invalid-argument"))
      return error.code;
    throw error;
  }
}

const accepted = (result: Outcome): result is readonly Segments[] => typeof result !== "string";

describe("placement, for any configuration and request,", () => {
  test("reports only topologies of the connection, in their order, and no empty one", () => {
    fc.assert(
      fc.property(places, demand, policy, (of, wanted, by) => {
        const result = outcome(of, wanted, by);
        if (!accepted(result)) return;
        const own = of.map(each => JSON.stringify(segmentsOf(each)));
        let from = 0;
        for (const reported of result) {
          expect(Object.keys(reported)).not.toBeEmpty();
          from = own.indexOf(JSON.stringify(reported), from) + 1;
          expect(from).toBeGreaterThan(0);
        }
        expect(result.length === 0).toBe(of.length === 0);
      }),
    );
  });

  test("accepts exactly if one requisite term matches, unless the preferred topology must be honoured", () => {
    fc.assert(
      fc.property(places, demand, policy, (of, wanted, by) => {
        const result = outcome(of, wanted, { ...by, honourPreferred: "off" });
        const fitting = wanted.requisite.length === 0 || wanted.requisite.some(each => fitsTerm(of, each, by));
        expect(accepted(result)).toBe(of.length === 0 || fitting);
      }),
    );
  });

  test("gives the same answer whatever the order of the requisite terms", () => {
    fc.assert(
      fc.property(places, demand, policy, (of, wanted, by) => {
        const turned = { ...wanted, requisite: wanted.requisite.toReversed() };
        expect(outcome(of, turned, by)).toEqual(outcome(of, wanted, by));
      }),
    );
  });

  test("never refuses permanently a request with a key of ours", () => {
    fc.assert(
      fc.property(places, demand, policy, fc.nat(), ours, (of, wanted, by, at, own) => {
        const requisite = wanted.requisite.toSpliced(at % (wanted.requisite.length + 1), 0, own);
        expect(outcome(of, { ...wanted, requisite }, by)).not.toBe("invalid-argument");
      }),
    );
  });

  test("accepts no more with strict matching", () => {
    fc.assert(
      fc.property(places, demand, policy, (of, wanted, by) => {
        const strict = accepted(outcome(of, wanted, { ...by, match: "strict" }));
        const first = accepted(outcome(of, wanted, { ...by, honourPreferred: "first" }));
        if (strict) expect(accepted(outcome(of, wanted, { ...by, match: "lenient" }))).toBe(true);
        if (first) expect(accepted(outcome(of, wanted, { ...by, honourPreferred: "off" }))).toBe(true);
      }),
    );
  });

  test("reports capacity exactly where it accepts volumes", () => {
    fc.assert(
      fc.property(places, ours, policy, (of, segment, by) => {
        const result = outcome(of, { requisite: [segment], preferred: [segment] }, by);
        expect(isReachableFrom(of, segment, by)).toBe(accepted(result));
      }),
    );
  });
});

test("the text of a group is inserted unchanged, even if it looks like a placeholder", () => {
  const group = fc.oneof(fc.string(), fc.constantFrom("{match:0}", "${match:1}", "$&", "$1", "$$", "\\1"));
  fc.assert(
    fc.property(group, group, (one, two) => {
      expect(filled("<{match:1}|${match:2}|{match:1}>", ["", one, two])).toBe(`<${one}|${two}|${one}>`);
    }),
  );
});

import { describe, expect, test } from "bun:test";
import type { Segments } from "../../lib/core/access.ts";
import { CsiError } from "../../lib/core/errors.ts";
import {
  type AccessibleTopology,
  accessibleTopologyFor,
  isReachableFrom,
  type PlacementPolicy,
  segmentsOf,
} from "../../lib/topology/accessible-topology.ts";
import { fc } from "../fast-check.ts";

const prefix = "t.example";
const lenient: PlacementPolicy = { prefix, match: "lenient", report: "all", honourPreferred: "off" };

const value = fc.constantFrom("a", "b");
const own = fc.constantFrom("t.example/zone", "t.example/rack");
const extra = fc.constantFrom("x.example/tier", "x.example/kind");
const foreign = fc.constantFrom("t.example.org/zone", "other/zone");

const someOf = (key: fc.Arbitrary<string>, minKeys: number) => fc.dictionary(key, value, { minKeys, maxKeys: 2 });
const places = fc.array(fc.record({ requirements: someOf(own, 1), extra: someOf(extra, 0) }), { maxLength: 3 });
const terms = fc.array(someOf(fc.oneof(own, extra, foreign), 1), { maxLength: 4 });
const policies = fc.record({
  prefix: fc.constant(prefix),
  match: fc.constantFrom("lenient", "strict"),
  report: fc.constantFrom("all", "requisite"),
  honourPreferred: fc.constant("off"),
}) satisfies fc.Arbitrary<PlacementPolicy>;

/** The rule in its plainest form: a known key that both name must agree, and strict wants every required key named. */
function agrees(term: Segments, { requirements, extra }: AccessibleTopology, match: PlacementPolicy["match"]): boolean {
  const labels = new Map([...Object.entries(requirements), ...Object.entries(extra)]);
  const clash = [...labels].some(([key, value]) => term[key] !== undefined && term[key] !== value);
  const gap = match === "strict" && Object.keys(requirements).some(key => term[key] === undefined);
  return !clash && !gap;
}

const speaks = (term: Segments, all: readonly AccessibleTopology[]): boolean =>
  Object.keys(term).some(key => key.startsWith("t.example/") || all.some(({ extra }) => key in extra));

const outcome = (all: readonly AccessibleTopology[], requisite: readonly Segments[], policy: PlacementPolicy) => {
  try {
    return accessibleTopologyFor(all, { requisite, preferred: [] }, policy);
  } catch (error) {
    if (error instanceof CsiError) return error.code;
    throw error;
  }
};

describe("placement of volumes", () => {
  test("a volume is accepted exactly if a requested term matches a topology of its connection", () => {
    fc.assert(
      fc.property(places, terms, policies, (all, requisite, policy) => {
        const usable = requisite.filter(term => speaks(term, all));
        const fitting = all.filter(each => usable.some(term => agrees(term, each, policy.match)));
        const got = outcome(all, requisite, policy);
        if (all.length === 0) expect(got).toEqual([]);
        else if (requisite.length === 0) expect(got).toEqual(all.map(segmentsOf));
        else if (usable.length === 0) expect(got).toBe("invalid-argument");
        else if (fitting.length === 0) expect(got).toBe("resource-exhausted");
        else expect(got).toEqual((policy.report === "all" ? all : fitting).map(segmentsOf));
      }),
      { numRuns: 2_000 },
    );
  });

  const z1: AccessibleTopology = { requirements: { "t.example/zone": "z1" }, extra: { "x.example/tier": "gold" } };

  test("the most preferred topology decides only if configured", () => {
    const demand = { requisite: [], preferred: [{ "t.example/zone": "z2" }, { "t.example/zone": "z1" }] };
    expect(accessibleTopologyFor([z1], demand, lenient)).toHaveLength(1);
    const first = () => accessibleTopologyFor([z1], demand, { ...lenient, honourPreferred: "first" });
    expect(first).toThrow("the preferred topology is t.example/zone=z2");
  });

  test("a refusal names the available and the requested topologies", () => {
    const ask = () => accessibleTopologyFor([z1], { requisite: [{ "t.example/zone": "z2" }], preferred: [] }, lenient);
    expect(ask).toThrow(/reachable from t\.example\/zone=z1,x\.example\/tier=gold.*only t\.example\/zone=z2/);
  });

  test("a property that JavaScript objects inherit is not a label", () => {
    const odd: AccessibleTopology = { requirements: { "t.example/zone": "z1" }, extra: {} };
    expect(outcome([odd], [{ constructor: "x" }], lenient)).toBe("invalid-argument");
    expect(isReachableFrom([odd], { "t.example/zone": "z1", toString: "x" }, lenient)).toBe(true);
  });

  test.each([
    [{ "t.example/zone": "z1" }, true],
    [{ "t.example/zone": "z2" }, false],
    [{ "t.example/zone": "z1", "x.example/tier": "silver" }, false],
    [{}, true],
  ])("capacity in %j counts: %p", (segment, want) => {
    expect(isReachableFrom([z1], segment, lenient)).toBe(want);
    expect(isReachableFrom([], segment, lenient)).toBe(true);
  });
});

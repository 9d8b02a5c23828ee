import { describe, expect, test } from "bun:test";
import { place } from "../../lib/topology/place.ts";
import { type Claim, type SidecarStep, sidecarStep } from "../../lib/topology/sidecar.ts";
import { type SidecarVector, vectors } from "../vectors/vectors.ts";

const { sidecar } = vectors();
const nodes = Object.entries(sidecar.nodes).map(([name, segments]) => ({ name, segments }));

function stepOf({ allowed, binding, selected = "", pvc = "data", strict, immediate }: SidecarVector): SidecarStep {
  const set = allowed === undefined ? undefined : sidecar.allowed_sets[allowed];
  const claim: Claim = {
    name: pvc,
    allowed: set && [set],
    binding: binding === "Immediate" ? { mode: binding } : { mode: binding, selected },
  };
  return sidecarStep(nodes, claim, { strict: strict === true, immediate: immediate !== false });
}

describe("the request of external-provisioner", () => {
  test.each(sidecar.cases.map(each => [each.id, each] as const))("is as published in %s", (_, vector) => {
    const { error, requisite, preferred } = vector;
    const demand = requisite && preferred ? { requisite, preferred } : undefined;
    expect(stepOf(vector)).toEqual(
      error === undefined ? { kind: "calls", demand } : { kind: "refuses", reason: error },
    );
  });

  test.each(Object.entries(sidecar.connection_z1))("in %s has the published outcome for storage in z1", (id, want) => {
    const vector = sidecar.cases.find(each => each.id === id);
    const step = vector && stepOf(vector);
    if (step?.kind !== "calls") throw new Error(`${id} calls nothing`);
    const z1 = { requirements: { "t.example/zone": "z1" }, extra: {} };
    const policy = { prefix: "t.example", match: "lenient", report: "all", honourPreferred: "never" } as const;
    const answer = () => place([z1], step.demand ?? { requisite: [], preferred: [] }, policy);
    if (want === "accept") expect(answer()).toEqual([{ "t.example/zone": "z1" }]);
    else expect(answer).toThrow("reachable from t.example/zone=z1");
  });

  const immediate: Claim = { name: "c", allowed: undefined, binding: { mode: "Immediate" } };

  test("names no place when allowedTopologies holds no expressions", () => {
    const step = sidecarStep(nodes, { ...immediate, allowed: [[]] }, { strict: false, immediate: true });
    expect(step).toEqual({ kind: "calls", demand: undefined });
  });

  test("does not come when no node has registered topology keys", () => {
    const bare = nodes.map(({ name }) => ({ name, segments: {} }));
    expect(sidecarStep(bare, immediate, { strict: false, immediate: true }).kind).toBe("refuses");
  });

  test("leaves out nodes that lack a key of the node that was looked at", () => {
    const mixed = [...nodes, { name: "n5", segments: { "t.example/region": "r9" } }];
    const step = sidecarStep(mixed, immediate, { strict: false, immediate: true });
    expect(step.kind === "calls" && step.demand?.requisite.length).toBe(3);
  });

  test("begins at the same place for all claims of one member of a StatefulSet", () => {
    const first = (name: string) => {
      const step = sidecarStep(nodes, { ...immediate, name }, { strict: false, immediate: true });
      return step.kind === "calls" ? step.demand?.preferred[0] : undefined;
    };
    expect(first("logs-web-1")).toEqual(first("data-web-1"));
    expect(first("data-web-2")).not.toEqual(first("data-web-1"));
  });
});

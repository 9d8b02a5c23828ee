import { describe, expect, test } from "bun:test";
import { accessibleTopologyFor } from "../../lib/topology/accessible-topology.ts";
import { type SidecarVector, vectors } from "../vectors/vectors.ts";
import { type Claim, type SidecarRequest, sidecarRequest } from "./model.ts";

const { sidecar } = vectors();
const nodes = Object.entries(sidecar.nodes).map(([name, labels]) => ({ name, keys: Object.keys(labels), labels }));

function requestOf({ allowed, selected, pvc = "data", strict, immediate }: SidecarVector): SidecarRequest {
  const set = allowed === undefined ? undefined : sidecar.allowed_sets[allowed];
  const claim: Claim = { name: pvc, allowed: set ? [set] : [], selected: nodes.find(({ name }) => name === selected) };
  return sidecarRequest(nodes, { strict: strict === true, immediate: immediate !== false }, claim);
}

describe("the request of external-provisioner", () => {
  test.each(sidecar.cases.map(each => [each.id, each] as const))("is as published in %s", (_, vector) => {
    const { error, requisite, preferred } = vector;
    const answer = requestOf(vector);
    if (error !== undefined) expect(answer).toHaveProperty("refusal");
    else expect(answer).toEqual({ demand: requisite && preferred ? { requisite, preferred } : undefined });
  });

  test.each(Object.entries(sidecar.connection_z1))("in %s has the published outcome for storage in z1", (id, want) => {
    const vector = sidecar.cases.find(each => each.id === id);
    const request = vector && requestOf(vector);
    if (!request || "refusal" in request) throw new Error(`${id} calls nothing`);
    const z1 = { requirements: { "t.example/zone": "z1" }, extra: {} };
    const policy = { prefix: "t.example", match: "lenient", report: "all", honourPreferred: "off" } as const;
    const answer = () => accessibleTopologyFor([z1], request.demand ?? { requisite: [], preferred: [] }, policy);
    if (want === "accept") expect(answer()).toEqual([{ "t.example/zone": "z1" }]);
    else expect(answer).toThrow("reachable from t.example/zone=z1");
  });

  const claim: Claim = { name: "c", allowed: [], selected: undefined };
  const flags = { strict: false, immediate: true };

  test("has no topology if allowedTopologies has no expressions", () => {
    expect(sidecarRequest(nodes, flags, { ...claim, allowed: [[]] })).toEqual({ demand: undefined });
  });

  test("is not sent if no node has registered topology keys", () => {
    const bare = nodes.map(({ name }) => ({ name, keys: [], labels: {} }));
    expect(sidecarRequest(bare, flags, claim)).toHaveProperty("refusal");
  });

  test("leaves out nodes that lack a key of the chosen node", () => {
    const labels = { "t.example/region": "r9" };
    const mixed = [...nodes, { name: "n5", keys: Object.keys(labels), labels }];
    const request = sidecarRequest(mixed, flags, claim);
    expect("demand" in request && request.demand?.requisite.length).toBe(3);
  });

  test("starts with the same topology for all claims of one member of a StatefulSet", () => {
    const first = (name: string) => {
      const request = sidecarRequest(nodes, flags, { ...claim, name });
      return "demand" in request ? request.demand?.preferred[0] : undefined;
    };
    expect(first("logs-web-1")).toEqual(first("data-web-1"));
    expect(first("data-web-2")).not.toEqual(first("data-web-1"));
  });
});

import { describe, expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { place } from "../../lib/topology/place.ts";
import {
  type ClusterNode,
  flatten,
  rotation,
  type SidecarRequest,
  sidecarRequest,
} from "../../lib/topology/sidecar.ts";
import { type SidecarVector, statusName, vectors } from "../vectors/vectors.ts";

const { sidecar } = vectors();

const nodes: readonly ClusterNode[] = Object.entries(sidecar.nodes).map(([name, labels]) => ({
  name,
  keys: Object.keys(labels),
  labels,
}));

function requestOf({
  strict = false,
  immediate = true,
  selected,
  allowed,
  pvc = "data",
}: SidecarVector): SidecarRequest {
  return sidecarRequest(
    nodes,
    { strict, immediate },
    {
      name: pvc,
      allowed: allowed === undefined ? [] : [sidecar.allowed_sets[allowed] ?? []],
      selected: nodes.find(({ name }) => name === selected),
    },
  );
}

describe("what external-provisioner sends", () => {
  test.each(sidecar.cases.map(each => [each.id, each] as const))("%s", (_, vector) => {
    const request = requestOf(vector);
    expect("refusal" in request).toBe(vector.error !== undefined);
    if ("refusal" in request) return;
    expect(request.demand?.requisite ?? null).toEqual(vector.requisite ?? null);
    expect(request.demand?.preferred ?? null).toEqual(vector.preferred ?? null);
  });

  const policy = { prefix: "t.example", match: "lenient", report: "all", honourPreferred: "never" } as const;
  const z1 = [{ requirements: { "t.example/zone": "z1" }, extra: {} }];

  test.each(Object.entries(sidecar.connection_z1))("%s on a connection in z1: %s", (id, outcome) => {
    const vector = sidecar.cases.find(each => each.id === id);
    const request = vector && requestOf(vector);
    if (!request || "refusal" in request) throw new Error(`no request in case ${id}`);
    const { demand = { requisite: [], preferred: [] } } = request;
    if (outcome === "accept") return expect(place(z1, demand, policy)).toEqual([{ "t.example/zone": "z1" }]);
    try {
      place(z1, demand, policy);
    } catch (error) {
      expect(error instanceof CsiError && statusName(error.code)).toBe(outcome);
      return;
    }
    throw new Error("the volume was placed");
  });

  test("a node without registered keys, or without the label of one, stops a claim that waits for it", () => {
    const [first] = nodes;
    const without: ClusterNode = { name: "n9", keys: [], labels: {} };
    const unlabelled: ClusterNode = { name: "n9", keys: ["t.example/zone"], labels: {} };
    for (const selected of [without, unlabelled]) {
      for (const strict of [true, false]) {
        const request = sidecarRequest(
          first ? [first] : [],
          { strict, immediate: true },
          { name: "c", allowed: [], selected },
        );
        expect(request).toHaveProperty("refusal");
      }
    }
  });

  test("nobody registered: an immediate claim fails, or is sent without topology, by the flag", () => {
    const claim = { name: "c", allowed: [], selected: undefined };
    expect(sidecarRequest([], { strict: false, immediate: true }, claim)).toHaveProperty("refusal");
    expect(sidecarRequest([], { strict: false, immediate: false }, claim)).toEqual({ demand: undefined });
  });

  test("allowedTopologies without expressions count as none", () => {
    const claim = { name: "c", allowed: [[]], selected: undefined };
    expect(sidecarRequest(nodes, { strict: false, immediate: true }, claim)).toEqual({ demand: undefined });
  });

  test("every combination of allowed values is one term, and the terms of all entries are alternatives", () => {
    const terms = flatten([
      [
        { key: "zone", values: ["a", "b"] },
        { key: "rack", values: ["1", "2"] },
      ],
      [{ key: "zone", values: ["c"] }],
    ]);
    expect(terms).toHaveLength(5);
    expect(terms).toContainEqual({ zone: "b", rack: "2" });
    expect(terms).toContainEqual({ zone: "c" });
  });

  test("the claims of one StatefulSet member begin in the same zone, those of the next member one further", () => {
    for (const terms of [2, 3, 7]) {
      const start = rotation("data-web-0", terms);
      expect(rotation("logs-web-0", terms)).toBe(start);
      expect(rotation("data-web-1", terms)).toBe((start + 1) % terms);
    }
  });
});

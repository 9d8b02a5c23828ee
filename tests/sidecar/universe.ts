import type { Segments } from "../../lib/core/access.ts";
import { fc } from "../fast-check.ts";
import type { AllowedTerm, ClusterNode, SidecarFlags } from "./model.ts";

export const prefix = "t.example";

/** Every zone is in one region, as in real clusters. */
const regions = { z1: "r1", z2: "r1", z3: "r2", z4: "r2" } as const;
type Zone = keyof typeof regions;
const zones = Object.keys(regions) as readonly Zone[];

/** A place that a connection names: a zone, a region, or both. Keys without prefix. */
const place = fc.oneof(
  fc.constantFrom(...zones).map((zone): Segments => ({ zone })),
  fc.constantFrom(...zones).map((zone): Segments => ({ region: regions[zone], zone })),
  fc.constantFrom("r1", "r2").map((region): Segments => ({ region })),
);

/** A connection by its places; none: reachable from everywhere. */
export interface StoredConnection {
  readonly name: string;
  readonly places: readonly Segments[];
}

/** Several connections behind one name. */
export interface StoredGroup {
  readonly name: string;
  readonly members: readonly string[];
  readonly policy: "ordered" | "spread" | "most-free";
}

/** What csimux is configured with for all clusters of a run. */
export interface Universe {
  readonly connections: readonly StoredConnection[];
  readonly groups: readonly StoredGroup[];
}

/** Connections in no, one and two places, and groups of them. */
export function universe(seed: number): Universe {
  const placesOf = (count: number) => fc.array(place, { minLength: count, maxLength: count });
  const sampled = [0, 1, 2].flatMap(count =>
    fc.sample(placesOf(count), { seed: seed + count, numRuns: count * 10 + 2 }),
  );
  const connections = sampled.map((places, index) => ({ name: `c${index}`, places }));
  const names = connections.map(({ name }) => name);
  const group = fc.record({
    members: fc.subarray(names, { minLength: 1, maxLength: 4 }),
    policy: fc.constantFrom("ordered" as const, "spread" as const, "most-free" as const),
  });
  const groups = fc.sample(group, { seed, numRuns: 30 }).map((each, index) => ({ name: `g${index}`, ...each }));
  return { connections, groups };
}

/** A cluster and a claim in it. */
export interface Scenario {
  readonly nodes: readonly ClusterNode[];
  readonly flags: SidecarFlags;
  readonly allowed: readonly AllowedTerm[];
  /** The node that the scheduler chose; undefined under immediate binding. */
  readonly selected: ClusterNode | undefined;
  readonly claim: string;
  /** What the class names. */
  readonly target: string;
}

/** Nodes report region and zone; which of the zones have nodes differs from cluster to cluster. */
const nodes = fc.array(fc.constantFrom(...zones), { minLength: 1, maxLength: 6 }).map(chosen =>
  chosen.map((zone, index): ClusterNode => {
    const labels = { [`${prefix}/region`]: regions[zone], [`${prefix}/zone`]: zone };
    return { name: `n${index}`, keys: Object.keys(labels), labels };
  }),
);

const values = (of: readonly string[]) => fc.subarray([...of], { minLength: 1 });
const byZone = values(zones).map((list): AllowedTerm => [{ key: `${prefix}/zone`, values: list }]);
const byRegion = values(["r1", "r2"]).map((list): AllowedTerm => [{ key: `${prefix}/region`, values: list }]);
const byBoth = fc.tuple(byRegion, byZone).map(([region, zone]): AllowedTerm => [...region, ...zone]);
const allowed = fc.oneof(
  { weight: 2, arbitrary: fc.constant<readonly AllowedTerm[]>([]) },
  { weight: 3, arbitrary: fc.array(fc.oneof(byZone, byRegion, byBoth), { minLength: 1, maxLength: 2 }) },
);

/** Scenarios for a configuration. */
export const scenario = ({ connections, groups }: Universe): fc.Arbitrary<Scenario> =>
  fc
    .record({
      nodes,
      flags: fc.record({ strict: fc.boolean(), immediate: fc.boolean() }),
      allowed,
      pick: fc.option(fc.nat(), { nil: undefined }),
      claim: fc.constantFrom("data", "data-web-0", "data-web-1", "logs-web-2", "x-7"),
      target: fc.constantFrom(...connections.map(({ name }) => name), ...groups.map(({ name }) => name)),
    })
    .map(({ pick, ...rest }) => ({
      ...rest,
      selected: pick === undefined ? undefined : rest.nodes[pick % rest.nodes.length],
    }));

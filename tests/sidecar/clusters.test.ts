import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { AccessibilityRequirements } from "../../lib/topology/accessible-topology.ts";
import { fc } from "../fast-check.ts";
import { World } from "../serve/world.ts";
import { type Came, wrong } from "./judge.ts";
import { sidecarRequest } from "./model.ts";
import { prefix, type Scenario, scenario, universe } from "./universe.ts";

/** A few seconds here; in continuous integration as many as are needed to trust it. */
const clusters = process.env["CI"] ? 10_000 : 1_000;
const parallel = 32;
const seed = Number(process.env["SEED"] ?? Date.now() % 1_000_000);
const configured = universe(seed);

const wire = (segments: Readonly<Record<string, string>>) => ({ segments: { ...segments } });

async function configure(
  { config, connections, folder }: World["sandbox"],
  options: Readonly<Record<string, string>>,
): Promise<void> {
  const rules = [{ topologyKey: "zone", source: "nodeName", template: "z1" }];
  const nodeTopology = { type: "zone", prefix, fromRegexp: rules };
  const groups = Object.fromEntries(configured.groups.map(({ name, members, policy }) => [name, { members, policy }]));
  const proxy = { configFolder: connections, nodeTopology, groups, ...options };
  await writeFile(config, JSON.stringify({ driver: "proxy", proxy }));
  for (const { name, places } of configured.connections) {
    const topology = places.map(requirements => ({ requirements }));
    const base = join(folder, "storage");
    const driver = { driver: "local-hostpath", "local-hostpath": { shareBasePath: base, controllerBasePath: base } };
    const perDriver = topology.length > 0 ? { proxy: { perDriver: { topology } } } : {};
    await writeFile(join(connections, `${name}.yaml`), JSON.stringify({ ...driver, ...perDriver }));
  }
}

/** How often each kind of answer came. */
interface Seen {
  accepted: number;
  refused: number;
}

/** One claim from beginning to end. Answers what is wrong with it; undefined when nothing is. */
async function lived(
  world: World,
  each: Scenario,
  index: number,
  strict: boolean,
  seen: Seen,
): Promise<string | undefined> {
  const { nodes, flags, claim, allowed, selected, target } = each;
  const drawn = nodes[index % nodes.length];
  const request = sidecarRequest(nodes, flags, { name: claim, allowed, selected, ...(drawn && { drawn }) });
  if ("refusal" in request) return undefined;
  const came = await create(world, `v-${index}`, target, request.demand);
  const reason = wrong(each, request.demand, came, configured, strict);
  seen["connection" in came ? "accepted" : "refused"]++;
  if ("connection" in came) await world.controller("deleteVolume", { volumeId: `v:${came.connection}/v-${index}` });
  return reason && `${reason}\n${JSON.stringify({ seed, each, demand: request.demand, came })}`;
}

async function create(
  world: World,
  name: string,
  target: string,
  demand: AccessibilityRequirements | undefined,
): Promise<Came> {
  const requirements = demand && {
    requisite: demand.requisite.map(wire),
    preferred: demand.preferred.map(wire),
  };
  try {
    const more = requirements ? { accessibilityRequirements: requirements } : {};
    const { volume } = await world.create(name, target, more);
    const [, connection = ""] = /^v:([^/]+)\//.exec(volume?.volumeId ?? "") ?? [];
    return { connection, places: (volume?.accessibleTopology ?? []).map(({ segments }) => segments) };
  } catch (error) {
    const { code, details } = error as { code: number; details: string };
    return { status: code, details };
  }
}

for (const [title, options, strict] of [
  ["as csimux is shipped", {}, false],
  [
    "with strict matching that reports what was asked for",
    { topologyMatch: "strict", reportTopology: "requisite" },
    true,
  ],
] as const) {
  describe(`claims in random clusters, ${title},`, () => {
    let world: World;

    beforeAll(async () => {
      world = await World.start("off", ["storage"], sandbox => configure(sandbox, options));
    }, 60_000);

    afterAll(async () => {
      await world.end();
    }, 60_000);

    test("get a volume that a permitted node can reach, and are refused only if no node could", async () => {
      const all = fc.sample(scenario(configured), { seed, numRuns: clusters / 2 });
      const complaints: string[] = [];
      const seen: Seen = { accepted: 0, refused: 0 };
      let next = 0;
      const worker = async (): Promise<void> => {
        for (let index = next++; index < all.length; index = next++) {
          const each = all[index];
          const complaint = each && (await lived(world, each, index, strict, seen));
          if (complaint !== undefined) complaints.push(complaint);
        }
      };
      await Promise.all(Array.from({ length: parallel }, worker));
      expect(complaints.slice(0, 3)).toEqual([]);
      expect(seen.accepted).toBeGreaterThan(all.length / 5);
      expect(seen.refused).toBeGreaterThan(all.length / 50);
    }, 120_000);
  });
}

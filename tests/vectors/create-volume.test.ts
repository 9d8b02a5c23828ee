import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { failureOf, World } from "../serve/world.ts";
import { type ConnectionVector, vectors } from "./vectors.ts";

const { connection_topology: published } = vectors();

/** Vectors with equal options share one csimux. */
const settings = new Map<string, ConnectionVector[]>();
for (const vector of published) {
  const key = JSON.stringify(vector.options ?? {});
  settings.set(key, [...(settings.get(key) ?? []), vector]);
}

async function configure(
  { config, connections, folder }: World["sandbox"],
  options: unknown,
  cases: readonly ConnectionVector[],
): Promise<void> {
  const fromRegexp = [{ topologyKey: "zone", source: "nodeName", template: "z1" }];
  const nodeTopology = { type: "zone", prefix: "t.example", fromRegexp };
  const proxy = { configFolder: connections, nodeTopology, ...(options as object) };
  await writeFile(config, JSON.stringify({ driver: "proxy", proxy }));
  const base = join(folder, "storage");
  const driver = { driver: "local-hostpath", "local-hostpath": { shareBasePath: base, controllerBasePath: base } };
  for (const { id, topology } of cases) {
    const places = topology === null ? {} : { proxy: { perDriver: { topology } } };
    await writeFile(join(connections, `${id}.yaml`), JSON.stringify({ ...driver, ...places }));
  }
}

const wire = (terms: ConnectionVector["requisite"]) => (terms ?? []).map(segments => ({ segments: { ...segments } }));

/** A connection file that cannot be used makes the connection unavailable: it may have been usable before csimux started. */
const codes: Readonly<Record<string, number>> = { RESOURCE_EXHAUSTED: 8, INVALID_ARGUMENT: 3, CONFIG: 14 };

describe.each([...settings])("CreateVolume with the options %s", (options, cases) => {
  let world: World;

  beforeAll(async () => {
    world = await World.start("off", ["storage"], sandbox => configure(sandbox, JSON.parse(options), cases));
  }, 60_000);

  afterAll(async () => {
    await world.end();
  }, 60_000);

  test.each(cases.map(each => [each.id, each.note, each] as const))("%s: %s", async (id, _, vector) => {
    const { requisite, preferred, expect: want } = vector;
    const accessibilityRequirements = { requisite: wire(requisite), preferred: wire(preferred) };
    const call = world.create(id, id, { accessibilityRequirements });
    if ("error" in want) {
      expect((await failureOf(call)).code).toBe(codes[want.error] ?? -1);
      // Topology is decided before anything is made.
      expect((await world.stored("storage")).filter(path => path.endsWith(`/${id}`))).toEqual([]);
      return;
    }
    const { volume } = await call;
    expect(volume?.volumeId).toBe(`v:${id}/${id}`);
    expect<unknown>((volume?.accessibleTopology ?? []).map(({ segments }) => segments)).toEqual(
      want.accessible_topology ?? [],
    );
  });
});

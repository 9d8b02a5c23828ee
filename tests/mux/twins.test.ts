import { describe, expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import type { LookupAbility } from "../../lib/drivers/driver.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { failure, muxWorld, request } from "./world.ts";

const call = testCall();
const zone = (name: string) => ({ "t.example/zone": name });
const down = new CsiError("unavailable", "no route to host");

type World = ReturnType<typeof muxWorld>;

function grouped(names: readonly string[] = ["a", "b"]): World {
  const world = muxWorld(names);
  world.groups.set("g", { from: { kind: "members", members: names }, policy: "ordered" });
  return world;
}

const create = (world: World, name = "v", more = {}) => world.volumes.create(request(name, "g", more), call);

/** The storage answers nothing that csimux asks. */
function kill(world: World, name: string): void {
  world.memory(name).fail = { create: down, find: down, list: down, delete: down, available: down, health: down };
}

function revive(world: World, name: string): void {
  world.memory(name).fail = {};
}

/** Handles of the volumes that the status names as doubled, after one round. */
async function doubled(world: World): Promise<readonly string[]> {
  await world.checkHealth(call);
  return world
    .overview(world.groups)
    .connections.flatMap(({ health }) => health.volumes)
    .filter(({ conditions }) => conditions.some(({ reason }) => reason === "VolumeDoubled"))
    .map(({ volume }) => volume);
}

/** A volume that was made on "a", where the answer was lost, and then on "b". */
async function twice(): Promise<World> {
  const world = grouped();
  await create(world);
  kill(world, "a");
  expect((await create(world)).id).toBe("v:b/v");
  return world;
}

/** Another process finishes the volume that it has begun on "a" right after it is looked up there for the first time. */
function finishedMeanwhile(world: World): void {
  const a = world.memory("a");
  a.begun.add("v");
  const open = a.driver.bind(a);
  let isFirst = true;
  a.driver = () => {
    const driver = open();
    const { names } = driver;
    const find: LookupAbility["find"] = async (name, own) => {
      const found = await names?.find(name, own);
      if (isFirst) await driver.create({ ...request(name, "a"), source: undefined }, own);
      isFirst = false;
      return found;
    };
    return names ? { ...driver, names: { ...names, find } } : driver;
  };
}

test("what another process finishes between two lookups is returned, and no second one is made", async () => {
  const world = grouped(["b", "a"]);
  finishedMeanwhile(world);
  expect((await create(world)).id).toBe("v:a/v");
  expect([world.memory("a").volumes.size, world.memory("b").volumes.size]).toEqual([1, 0]);
});

describe("after a member has returned", () => {
  test("what another process finishes there between two lookups is reported and kept", async () => {
    const world = grouped();
    kill(world, "a");
    await create(world);
    finishedMeanwhile(world);
    revive(world, "a");
    expect(await doubled(world)).toEqual(["v:a/v", "v:b/v"]);
    expect(world.memory("a").volumes.size).toBe(1);
  });

  test("a finished volume of the same name is reported with the other one and kept", async () => {
    const world = await twice();
    expect(await doubled(world)).toEqual([]);
    revive(world, "a");
    expect(await doubled(world)).toEqual(["v:a/v", "v:b/v"]);
    expect([world.memory("a").volumes.size, world.memory("b").volumes.size]).toEqual([1, 1]);
  });

  test("the volume that was returned is returned again", async () => {
    const world = await twice();
    revive(world, "a");
    expect((await create(world)).id).toBe("v:b/v");
  });

  test("an unfinished volume is removed, because the finished one exists elsewhere", async () => {
    const world = grouped();
    world.memory("a").begun.add("v");
    kill(world, "a");
    await create(world);
    revive(world, "a");
    expect(await doubled(world)).toEqual([]);
    expect([world.memory("a").begun.size, world.memory("b").volumes.size]).toEqual([0, 1]);
  });

  test("an unfinished volume is kept until the finished one is seen elsewhere", async () => {
    const world = grouped();
    world.memory("a").begun.add("v");
    kill(world, "a");
    await create(world);
    revive(world, "a");
    kill(world, "b");
    await doubled(world);
    expect(world.memory("a").begun.size).toBe(1);
    revive(world, "b");
    world.memory("b").volumes.clear();
    await doubled(world);
    expect(world.memory("a").begun.size).toBe(1);
  });

  test("an unfinished volume is removed if the finished one was deleted meanwhile", async () => {
    const world = grouped();
    world.memory("a").begun.add("v");
    kill(world, "a");
    await world.volumes.delete((await create(world)).id, call);
    revive(world, "a");
    await doubled(world);
    expect(world.memory("a").begun.size).toBe(0);
  });

  test("a finished volume is reported and kept if the other one was deleted meanwhile", async () => {
    const world = await twice();
    await world.volumes.delete("v:b/v", call);
    revive(world, "a");
    expect(await doubled(world)).toEqual(["v:a/v"]);
    expect(world.memory("a").volumes.size).toBe(1);
    await world.volumes.delete("v:a/v", call);
    expect(await doubled(world)).toEqual([]);
  });

  test("nothing is reported once one of the two is deleted", async () => {
    const world = await twice();
    revive(world, "a");
    expect(await doubled(world)).toHaveLength(2);
    await world.volumes.delete("v:a/v", call);
    expect(await doubled(world)).toEqual([]);
  });

  test("a duplicate is still reported if the member leaves again", async () => {
    const world = await twice();
    revive(world, "a");
    await doubled(world);
    kill(world, "a");
    expect(await doubled(world)).toContain("v:b/v");
  });
});

test("equal names on connections without a common group are not reported", async () => {
  const world = muxWorld(["a", "b"]);
  for (const name of ["a", "b"]) await world.volumes.create(request("v", name), call);
  expect(await doubled(world)).toEqual([]);
});

test("no member is listed in a round", async () => {
  const world = await twice();
  revive(world, "a");
  for (let round = 0; round < 5; round++) await doubled(world);
  expect([world.memory("a").asked, world.memory("b").asked]).toEqual([0, 0]);
});

test("another process that creates the same volume at the same time without the member removes no finished volume", async () => {
  for (let ticks = 0; ticks < 60; ticks++) {
    const world = grouped();
    const next = grouped();
    for (const [name, memory] of world.memories) next.memories.set(name, memory);
    next.up.delete("a");
    const made = [create(world)];
    for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
    made.push(create(next));
    await Promise.all(made.map(failure));
    next.up.add("a");
    // Every claim has its answer, or is repeated; each volume that was answered stands, and the process that skipped a member names both.
    for (const each of await Promise.allSettled(made))
      if (each.status === "fulfilled") expect((await next.volumes.get(each.value.id, call)).id).toBe(each.value.id);
    const on = ["a", "b"].filter(name => world.memory(name).volumes.size > 0);
    expect(await doubled(next)).toEqual(on.length > 1 ? ["v:a/v", "v:b/v"] : []);
    for (const name of ["a", "b"]) expect(world.memory(name).begun.size).toBe(0);
  }
});

test("200 claims in three zones with a dead member are all created, and every duplicate is reported after its return", async () => {
  const names = ["a", "b", "c"] as const;
  const world = grouped(names);
  world.groups.set("g", { from: { kind: "members", members: names }, policy: "spread" });
  const places = [zone("a"), zone("b"), zone("c")].map(requirements => ({ requirements, extra: {} }));
  for (const [index, name] of names.entries())
    world.traits.set(name, { accessibleTopology: places.slice(index, index + 1) });
  const claims = Array.from({ length: 200 }, (_, i) => `pvc-${i}`);
  const anywhere = { requisite: names.map(zone), preferred: [] };
  // The member dies under its first claims: some are made and their answer is lost, some are half made.
  const [finished, half] = [claims.slice(0, 20), claims.slice(20, 40)];
  for (const name of finished) await world.volumes.create(request(name, "a"), call);
  for (const name of half) world.memory("a").begun.add(name);
  kill(world, "a");
  const started = performance.now();
  const made = await Promise.all(
    claims.map((name, i) => {
      const demand = i < 40 ? anywhere : { requisite: [zone(i % 2 ? "b" : "c")], preferred: [] };
      return create(world, name, { accessibility: demand });
    }),
  );
  expect(performance.now() - started).toBeLessThan(10_000);
  expect(made.every(({ id, context }) => /^v:[bc]\//.test(id) && context["skipped"] === "a")).toBe(true);
  for (let minute = 0; minute < 60; minute++) expect(await doubled(world)).toEqual([]);
  revive(world, "a");
  const twins = finished.flatMap((name, i) => [`v:a/${name}`, made[i]?.id ?? ""]);
  expect([...(await doubled(world))].sort()).toEqual(twins.sort());
  expect(world.memory("a").begun.size).toBe(0);
  expect(world.memory("b").volumes.size + world.memory("c").volumes.size).toBe(200);
});

test("500 creates with lost answers and members that come and go end as 500 volumes and reported duplicates", async () => {
  const world = grouped(["a", "b", "c", "d"]);
  world.groups.set("g", { from: { kind: "members", members: ["a", "b", "c", "d"] }, policy: "spread" });
  let seed = 7;
  const random = () => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    return seed / 2 ** 31;
  };
  const answered = new Map<string, string>();
  const make = async (name: string): Promise<void> => {
    for (;;) {
      const client = new AbortController();
      if (random() < 0.3) queueMicrotask(() => client.abort());
      if (random() < 0.1) world.up.delete("d");
      else world.up.add("d");
      try {
        const { id } = await world.volumes.create(request(name, "g"), testCall(client.signal));
        return void answered.set(name, id);
      } catch (error) {
        expect(["unavailable", "deadline-exceeded", "aborted"]).toContain((error as CsiError).code);
      }
    }
  };
  for (let i = 0; i < 500; i += 25) await Promise.all(Array.from({ length: 25 }, (_, at) => make(`v${i + at}`)));
  world.up.add("d");
  await world.stop(1_000);
  const all = [...world.memories].flatMap(([name, { volumes }]) => [...volumes.keys()].map(id => `v:${name}/${id}`));
  expect(answered.size).toBe(500);
  for (const id of answered.values()) expect(all).toContain(id);
  // Of two, the one that was answered for stands, and csimux reports both.
  const nameOf = (id: string) => id.slice(id.indexOf("/"));
  const twins = all.filter(id => all.some(other => other !== id && nameOf(other) === nameOf(id)));
  world.up.add("d");
  expect([...(await doubled(world))].sort()).toEqual(twins.sort());
});

import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import type { Group } from "../../lib/core/proxy.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { passing, pause } from "../waiting.ts";
import { codeOf, failure, muxWorld, request } from "./world.ts";

const call = testCall();
const members = (names: readonly string[], policy: Group["policy"] = "ordered"): Group => ({
  from: { kind: "members", members: names },
  policy,
});
const zone = (name: string) => ({ "t.example/zone": name });
const at = (name: string) => ({ requirements: zone(name), extra: {} });

function grouped(policy: Group["policy"] = "ordered", names = ["a", "b", "c"]) {
  const world = muxWorld(names);
  world.groups.set("g", members(names, policy));
  return world;
}

test("the handle names the member, and a retry finds the volume wherever it is", async () => {
  const world = grouped();
  expect((await world.volumes.create(request("v", "g"), call)).id).toBe("v:a/v");
  world.groups.set("g", members(["c", "b", "a"]));
  expect((await world.volumes.create(request("v", "g"), call)).id).toBe("v:a/v");
});

test("equal creates at once create one volume", async () => {
  const world = grouped("spread");
  const made = await Promise.all([1, 2, 3].map(() => world.volumes.create(request("v", "g"), call)));
  expect(new Set(made.map(volume => volume.id)).size).toBe(1);
  expect([...world.memories.values()].reduce((sum, memory) => sum + memory.volumes.size, 0)).toBe(1);
});

test.each([
  ["g", "h"],
  ["c", "g"],
])("a class of %s and then one of %s, which overlap, create one volume of a name", async (one, other) => {
  const world = grouped();
  world.groups.set("h", members(["c", "b", "a"]));
  const until = async (name: string, connection: string): Promise<void> => {
    for (let error = await failure(world.volumes.create(request(name, connection), call)); error; ) {
      expect(error.code).toBe("aborted");
      error = await failure(world.volumes.create(request(name, connection), call));
    }
  };
  for (let ticks = 0; ticks < 100; ticks++) {
    const first = until(`v${ticks}`, one);
    for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
    await until(`v${ticks}`, other);
    await first;
  }
  const names = [...world.memories.values()].flatMap(memory => [...memory.volumes.keys()]);
  expect(names).toHaveLength(100);
});

const down = new CsiError("unavailable", "down");
const dead: Readonly<Record<string, (world: ReturnType<typeof grouped>) => void>> = {
  fails: world => {
    world.memory("a").fail.find = down;
  },
  "refuses the login": world => {
    world.memory("a").fail.find = new CsiError("unauthenticated", "wrong key");
  },
  hangs: world => {
    world.memory("a").look = new Promise(() => undefined);
  },
  "has no file": world => {
    world.up.delete("a");
  },
  "has a file that cannot be used": world => {
    world.broken.add("a");
  },
  "is suspended and fails": world => {
    world.traits.set("a", { suspended: true });
    world.memory("a").fail.find = down;
  },
};

test.each(Object.entries(dead))("a member that %s is skipped, and the volume context names it", async (_, kill) => {
  const world = grouped();
  kill(world);
  const made = await world.volumes.create(request("v", "g"), call);
  expect(made).toMatchObject({ id: "v:b/v", context: { skipped: "a" } });
  expect((await world.volumes.create(request("v", "g"), call)).id).toBe("v:b/v");
  expect(world.memory("a").volumes.size).toBe(0);
});

test("a connection whose labels cannot be read blocks no group and gets no volume", async () => {
  const world = muxWorld(["a", "b"]);
  world.groups.set("fast", {
    from: { kind: "selector", selector: [{ key: "tier", operator: "in", values: ["fast"] }] },
    policy: "ordered",
  });
  world.traits.set("b", { labels: { tier: "fast" } });
  world.broken.add("a");
  expect(await world.volumes.create(request("v", "fast"), call)).toMatchObject({
    id: "v:b/v",
    context: { skipped: "a" },
  });
});

test("a member that is busy with the volume is not skipped", async () => {
  const world = grouped();
  world.memory("a").fail.find = new CsiError("aborted", "another operation is in progress");
  expect(await codeOf(world.volumes.create(request("v", "g"), call))).toBe("aborted");
  expect(world.memory("b").volumes.size).toBe(0);
});

test("a process that stops skips no member", async () => {
  const world = grouped();
  world.memory("a").look = new Promise(() => undefined);
  const creating = failure(world.volumes.create(request("v", "g"), call));
  // The calls begin, and then wait for the storage.
  await passing(1);
  await world.stop(1_000);
  expect((await creating)?.code).toBe("unavailable");
  expect(world.memory("b").volumes.size).toBe(0);
});

test("while no member answers, the refusal is not final", async () => {
  const world = grouped("ordered", ["a", "b"]);
  for (const name of ["a", "b"]) world.memory(name).fail.find = new CsiError("unavailable", "down");
  expect(await failure(world.volumes.create(request("v", "g"), call))).toMatchObject({
    code: "unavailable",
    message: expect.stringContaining('connection "a": it is unreachable'),
  });
});

test("a silent member that the request cannot reach does not delay a claim", async () => {
  const world = grouped("ordered", ["a", "b"]);
  world.traits.set("a", { accessibleTopology: [{ requirements: zone("z1"), extra: {} }] });
  world.traits.set("b", { accessibleTopology: [{ requirements: zone("z2"), extra: {} }] });
  const inZone = (name: string) => ({ accessibility: { requisite: [zone(name)], preferred: [] } });
  await world.volumes.create(request("u", "g", inZone("z1")), call);
  world.memory("a").fail.find = new CsiError("unavailable", "down");
  world.memory("b").free = 1n;
  expect(await codeOf(world.volumes.create(request("v", "g", inZone("z2")), call))).toBe("resource-exhausted");
});

test.each(["stays", "was deleted there before"])(
  "a volume whose member's file was removed is created elsewhere, if it %s",
  async before => {
    const world = grouped("ordered", ["a", "b"]);
    const fast = [{ key: "tier", operator: "in" as const, values: ["fast"] }];
    for (const name of ["a", "b"]) world.traits.set(name, { labels: { tier: "fast" } });
    world.groups.set("g", { from: { kind: "selector", selector: fast }, policy: "ordered" });
    const create = () => world.volumes.create(request("v", "g"), call);
    expect((await create()).id).toBe("v:a/v");
    if (before !== "stays") await world.volumes.delete("v:a/v", call);
    world.up.delete("a");
    expect((await create()).id).toBe("v:b/v");
  },
);

test("the next member is tried after RESOURCE_EXHAUSTED and after nothing else", async () => {
  const full = grouped();
  full.memory("a").fail.create = new CsiError("resource-exhausted", "pool full");
  expect((await full.volumes.create(request("v", "g"), call)).id).toBe("v:b/v");
  const unclear = grouped();
  unclear.memory("a").fail.create = new CsiError("unavailable", "connection lost");
  expect(await codeOf(unclear.volumes.create(request("v", "g"), call))).toBe("unavailable");
  expect(unclear.memory("b").volumes.size).toBe(0);
});

test("members are filtered by topology and tried in the order of preference", async () => {
  const world = grouped();
  for (const [name, place] of [
    ["a", "z1"],
    ["b", "z2"],
    ["c", "z3"],
  ] as const)
    world.traits.set(name, { accessibleTopology: [at(place)] });
  const demand = { requisite: [zone("z2"), zone("z3")], preferred: [zone("z3"), zone("z2")] };
  expect(await world.volumes.create(request("v", "g", { accessibility: demand }), call)).toMatchObject({
    id: "v:c/v",
    accessibleTopology: [zone("z3")],
  });
  const nowhere = { requisite: [zone("z9")], preferred: [] };
  expect(await codeOf(world.volumes.create(request("w", "g", { accessibility: nowhere }), call))).toBe(
    "resource-exhausted",
  );
});

test("most-free selects the emptiest member, spread uses every member, and the capacity is that of the largest", async () => {
  const free = grouped("most-free");
  for (const [name, bytes] of [
    ["a", 5n],
    ["b", 9n],
    ["c", 7n],
  ] as const)
    free.memory(name).free = bytes << 30n;
  expect((await free.volumes.create(request("v", "g"), call)).id).toBe("v:b/v");
  const capacity = { capabilities: [], parameters: { connection: "g" }, segment: undefined };
  expect(await free.capacity.available(capacity, call)).toBe(9n << 30n);
  const large = { range: { required: 1n << 40n, limit: undefined } };
  const full = await failure(free.volumes.create(request("w", "g", large), call));
  expect(full?.code).toBe("resource-exhausted");
  expect(full?.message).toContain(`connection "a": ${5n << 30n} of the ${1n << 40n} bytes are free`);
  const spread = grouped("spread");
  for (let i = 0; i < 60; i++) await spread.volumes.create(request(`v${i}`, "g"), call);
  for (const memory of spread.memories.values()) expect(memory.volumes.size).toBeGreaterThan(8);
});

test("a clone is created on the connection of its source, which must be a member", async () => {
  const world = grouped("ordered", ["a", "b", "x"]);
  world.groups.set("g", members(["a", "b"]));
  for (const name of ["b", "x"]) await world.volumes.create(request("src", name), call);
  const from = (id: string) => ({ source: { kind: "volume" as const, id } });
  expect((await world.volumes.create(request("v", "g", from("v:b/src")), call)).id).toBe("v:b/v");
  expect(await codeOf(world.volumes.create(request("w", "g", from("v:x/src")), call))).toBe("invalid-argument");
});

test("the rest of an interrupted creation is removed from a member when the retry selects another one", async () => {
  const world = grouped("most-free");
  for (const name of ["a", "c"]) world.memory(name).begun.add("v");
  world.memory("b").free = 1n << 50n;
  expect((await world.volumes.create(request("v", "g"), call)).id).toBe("v:b/v");
  expect([...world.memories.values()].map(memory => memory.begun.size)).toEqual([0, 0, 0]);
});

test("a group by selector follows the labels", async () => {
  const world = grouped();
  world.traits.set("b", { labels: { tier: "fast" } });
  world.groups.set("fast", {
    from: { kind: "selector", selector: [{ key: "tier", operator: "in", values: ["fast"] }] },
    policy: "ordered",
  });
  expect((await world.volumes.create(request("v", "fast"), call)).id).toBe("v:b/v");
});

test("members are asked for their free space at the same time", async () => {
  const world = muxWorld(["a", "b", "c"], { look: 60_000, capacity: 60_000 });
  world.groups.set("g", members(["a", "b", "c"], "most-free"));
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const memory of world.memories.values()) memory.measure = promise;
  const creating = failure(world.volumes.create(request("v", "g"), call));
  const until = Date.now() + 30_000;
  while ([...world.memories.values()].some(({ measured }) => measured === 0)) {
    expect(Date.now()).toBeLessThan(until);
    await pause(1);
  }
  resolve();
  expect(await creating).toBeUndefined();
});

test("a member that does not report its free space in time is skipped", async () => {
  const world = grouped("most-free");
  world.memory("b").measure = new Promise(() => undefined);
  world.memory("b").free = 1n << 50n;
  expect((await world.volumes.create(request("w", "g"), call)).id).not.toBe("v:b/w");
  for (const name of ["a", "c"]) world.memory(name).free = 1n;
  expect(await codeOf(world.volumes.create(request("x", "g"), call))).toBe("unavailable");
});

test("what another controller finishes between the search and the removal stays", async () => {
  const world = grouped();
  const a = world.memory("a");
  const open = a.driver.bind(a);
  let looks = 0;
  let first: unknown;
  a.driver = () => {
    const driver = open();
    const { names } = driver;
    if (!names) return driver;
    return {
      ...driver,
      names: {
        ...names,
        find: async (name, own) => {
          if (++looks > 2) return names.find(name, own);
          if (looks === 2) {
            // The other controller finishes the volume that this search still sees as unfinished.
            const range = { required: 1n << 20n, limit: undefined };
            await driver.create({ name, range, parameters: {}, source: undefined, mutable: {} }, own);
            first = a.volumes.get(name);
          }
          return { kind: "unfinished", id: name };
        },
      },
    };
  };
  expect(await codeOf(world.volumes.create(request("v", "g"), call))).toBe("aborted");
  expect(first).toBeDefined();
  expect(a.volumes.get("v")).toBe(first as never);
});

import { expect, test } from "bun:test";
import { type Group, parseSelector } from "../../lib/core/proxy.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { pause } from "../waiting.ts";
import { muxWorld, request } from "./world.ts";

const call = testCall();
const volume = (id: string) => ({ id, bytes: 1n, context: {}, source: undefined });
const list = (world: ReturnType<typeof muxWorld>, max = 0, token = "") => world.listing.volumes({ max, token }, call);
const none: ReadonlyMap<string, Group> = new Map();

test("an overview shows the figures of earlier calls and sends no request", async () => {
  const world = muxWorld(["a", "b"]);
  for (const id of ["v1", "v2"]) world.memory("a").volumes.set(id, volume(id));
  world.memory("b").free = 7n;
  await list(world);
  await world.capacity.available({ capabilities: [], parameters: { connection: "b" }, segment: undefined }, call);
  const never = new Promise<never>(() => {});
  for (const name of ["a", "b"]) world.memory(name).look = never;
  const asked = world.memory("a").asked;
  const [a, b] = world.overview(none).connections;
  expect([a?.name, a?.state, a?.volumes?.value, a?.free]).toEqual(["a", "good", 2, undefined]);
  expect([b?.name, b?.driver, b?.volumes?.value, b?.free?.value]).toEqual(["b", "memory", 0, 7n]);
  expect(world.memory("a").asked).toBe(asked);
});

test("volumes are counted once a listing was followed to its end, in pages of any size", async () => {
  const world = muxWorld(["a"]);
  for (let i = 0; i < 5; i++) world.memory("a").volumes.set(`v${i}`, volume(`v${i}`));
  const counted = () => world.overview(none).connections[0]?.volumes?.value;
  const first = await list(world, 2);
  expect(counted()).toBeUndefined();
  const second = await list(world, 2, first.next);
  // Another one reads the first page again meanwhile, at another width.
  await list(world, 3);
  await list(world, 2, second.next);
  expect(counted()).toBeUndefined();
  for (let token = ""; ; ) {
    const page = await list(world, 2, token);
    if (page.next === undefined) break;
    token = page.next;
  }
  expect(counted()).toBe(5);
});

test("a connection is degraded while its last valid file is used, then gone, with the time of the change", async () => {
  const world = muxWorld(["a", "b"]);
  world.traits.set("a", {
    suspended: true,
    accessibleTopology: [{ requirements: { "t.example/zone": "z1" }, extra: {} }],
  });
  await list(world);
  const one = () => world.overview(none).connections[0];
  const good = one();
  expect(good).toMatchObject({
    state: "good",
    suspended: true,
    accessibleTopology: ["zone=z1"],
    problem: undefined,
  });
  world.broken.add("a");
  await list(world);
  expect(one()).toMatchObject({ state: "degraded", problem: "no such storage", driver: "memory" });
  const { since } = one() ?? { since: 0 };
  expect(since).toBeGreaterThanOrEqual(good?.since ?? Number.POSITIVE_INFINITY);
  world.up.delete("a");
  await world.volumes.delete("v:a/x", call).catch(() => {});
  expect(one()).toMatchObject({ state: "gone", problem: undefined, driver: undefined, accessibleTopology: [] });
});

test("the members of a group are those of its list, or those that match its selector", async () => {
  const world = muxWorld(["a", "b"]);
  world.traits.set("b", { labels: { tier: "fast" } });
  await list(world);
  const groups = new Map<string, Group>([
    ["listed", { from: { kind: "members", members: ["b", "a"] }, policy: "ordered" }],
    ["chosen", { from: { kind: "selector", selector: parseSelector("tier=fast") }, policy: "spread" }],
  ]);
  expect(world.overview(groups).groups).toEqual([
    { name: "listed", policy: "ordered", members: ["b", "a"] },
    { name: "chosen", policy: "spread", members: ["b"] },
  ]);
});

test("an overview shows running jobs and the calls that use a connection", async () => {
  const world = muxWorld(["a"]);
  const { promise, resolve } = Promise.withResolvers<void>();
  world.memory("a").gate = promise;
  const made = world.volumes.create(request("pvc-1", "a"), call);
  const until = Date.now() + 10_000;
  while (world.overview(none).connections[0]?.inUse !== 1 && Date.now() < until) await pause(1);
  const { jobs, connections } = world.overview(none);
  expect(jobs.map(({ what }) => what)).toEqual(["create a/pvc-1"]);
  expect(connections[0]?.inUse).toBe(1);
  resolve();
  await made;
  expect(world.overview(none).jobs).toEqual([]);
});

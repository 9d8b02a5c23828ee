import { expect, test } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
import { testCall } from "../../fakes/memory-driver.ts";
import { codeOf, failure, muxWorld, request } from "../world.ts";

const call = testCall();
const down = new CsiError("unavailable", "no route to host");

type World = ReturnType<typeof muxWorld>;

const consistOf = (world: World, members: readonly string[]) =>
  void world.groups.set("g", { from: { kind: "members", members }, policy: "ordered" });

const create = (world: World, more = {}) => world.volumes.create(request("v", "g", more), call);

/** A group of "a" and "b" whose creation of a volume has made it on "a", or begun it there, and ended without an answer. */
async function interrupted(left: "finished" | "unfinished"): Promise<World> {
  const world = muxWorld(["a", "b"]);
  consistOf(world, ["a", "b"]);
  const a = world.memory("a");
  const open = a.driver.bind(a);
  a.driver = () => ({
    ...open(),
    async create(spec, own) {
      if (left === "finished") await open().create(spec, own);
      else a.begun.add(spec.name);
      throw down;
    },
  });
  expect(await codeOf(create(world))).toBe("unavailable");
  a.driver = open;
  world.edit("a");
  return world;
}

const remains = (world: World) =>
  ["a", "b"].map(name => [...world.memory(name).volumes.keys(), ...world.memory(name).begun].length);

test("what is finished on a former member is the volume, and none is made next to it", async () => {
  const world = await interrupted("finished");
  consistOf(world, ["b"]);
  expect((await create(world)).id).toBe("v:a/v");
  expect(remains(world)).toEqual([1, 0]);
});

test("what is unfinished on a former member is removed, and the volume is made on a member", async () => {
  const world = await interrupted("unfinished");
  consistOf(world, ["b"]);
  expect((await create(world)).id).toBe("v:b/v");
  expect(remains(world)).toEqual([0, 1]);
});

test("a former member that does not answer is named, and asked when it does", async () => {
  const world = await interrupted("unfinished");
  consistOf(world, ["b"]);
  world.memory("a").fail.find = down;
  expect(await create(world)).toMatchObject({ id: "v:b/v", context: { skipped: "a" } });
  world.memory("a").fail = {};
  await world.checkHealth(call);
  expect(remains(world)).toEqual([0, 1]);
});

test("a group without members answers finally once nothing is left on its former one", async () => {
  const world = await interrupted("unfinished");
  consistOf(world, []);
  world.memory("a").fail.find = down;
  expect(await codeOf(create(world))).toBe("unavailable");
  world.memory("a").fail = {};
  expect(await codeOf(create(world))).toBe("failed-precondition");
  expect(remains(world)).toEqual([0, 0]);
});

test("a refusal is not final while a member on which the volume was begun does not answer, suspended or not", async () => {
  const world = await interrupted("unfinished");
  world.traits.set("a", { suspended: true });
  world.edit("a");
  world.memory("a").fail.find = down;
  world.memory("b").free = 1n;
  expect(await codeOf(create(world))).toBe("unavailable");
  world.memory("a").fail = {};
  expect(await codeOf(create(world))).toBe("resource-exhausted");
  expect(remains(world)).toEqual([0, 0]);
});

test("a final failure on one member is not final while another one was not asked whether it has the volume", async () => {
  const world = await interrupted("finished");
  world.memory("a").fail.find = down;
  world.memory("b").fail.create = new CsiError("permission-denied", "the account must not create datasets");
  expect(await failure(create(world))).toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("the account must not create datasets"),
  });
  world.memory("a").fail = {};
  expect((await create(world)).id).toBe("v:a/v");
});

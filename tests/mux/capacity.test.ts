import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { infiniteBytes } from "../../lib/mux/capacity.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { failure, muxWorld } from "./world.ts";

const call = testCall();
const anywhere = { capabilities: [], parameters: {}, segment: undefined };
const silence = new Promise<void>(() => undefined);

test("without a class it is that of the largest connection that answers", async () => {
  const world = muxWorld(["a", "b", "down", "hung"]);
  world.memory("a").free = 5n << 30n;
  world.memory("b").free = 9n << 30n;
  world.memory("down").fail.available = new CsiError("unavailable", "no route to host");
  world.memory("hung").look = silence;
  expect(await world.capacity.available(anywhere, call)).toBe(9n << 30n);
});

test("when no connection answers, nobody can tell; where there is none, nothing is known", async () => {
  const world = muxWorld(["down", "hung"]);
  world.memory("down").fail.available = new CsiError("unavailable", "no route to host");
  world.memory("hung").look = silence;
  expect((await failure(world.capacity.available(anywhere, call)))?.code).toBe("unavailable");
  expect(await muxWorld([]).capacity.available(anywhere, call)).toBe(infiniteBytes);
});

test("of a connection that hangs it is UNAVAILABLE with its name", async () => {
  const world = muxWorld(["hung"]);
  world.memory("hung").look = silence;
  const error = await failure(world.capacity.available({ ...anywhere, parameters: { connection: "hung" } }, call));
  expect(error?.code).toBe("unavailable");
  expect(error?.message).toContain('"hung"');
});

test("a group whose member has lost its file is UNAVAILABLE and names the file, for the class is right", async () => {
  const world = muxWorld(["a", "b"]);
  world.groups.set("both", { from: { kind: "members", members: ["a", "b"] }, policy: "ordered" });
  world.up.delete("b");
  const error = await failure(world.capacity.available({ ...anywhere, parameters: { connection: "both" } }, call));
  expect(error?.code).toBe("unavailable");
  expect(error?.message).toContain("restore its file b.yaml");
});

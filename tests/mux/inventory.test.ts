import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { muxWorld, request } from "./world.ts";

const call = testCall();

test("an inventory has all volumes and the number of their snapshots, and says which connection could not be listed", async () => {
  const world = muxWorld(["a", "b", "c"]);
  const made = await world.volumes.create(request("one", "a"), call);
  await world.volumes.create(request("two", "a"), call);
  for (const name of ["s1", "s2"])
    await world.snapshots.create(
      { name, volume: made.id, parameters: {}, accessibility: { requisite: [], preferred: [] } },
      call,
    );
  world.memory("b").fail.list = new CsiError("unavailable", "no route to host");
  world.broken.add("c");
  const [a, b, c] = await world.inventory(call);
  expect(a?.problem).toBeUndefined();
  expect(a?.volumes.map(({ id, bytes, snapshots }) => [id, bytes, snapshots])).toEqual([
    ["v:a/one", 1 << 20, 2],
    ["v:a/two", 1 << 20, 0],
  ]);
  const [status] = world.overview(new Map()).connections;
  expect([status?.volumes?.value, status?.free?.value]).toEqual([2, world.memory("a").free]);
  expect(b).toEqual({ connection: "b", volumes: [], problem: "the volumes cannot be listed: no route to host" });
  expect(c?.volumes).toEqual([]);
  expect(c?.problem).toBeString();
});

test("a connection that hangs does not keep the others from an inventory; more than a page of volumes is read whole", async () => {
  const world = muxWorld(["a", "b"]);
  for (let index = 0; index < 2_500; index++) {
    const id = `v${String(index).padStart(4, "0")}`;
    world.memory("a").volumes.set(id, { id, bytes: 1n, source: undefined });
  }
  const hung = Promise.withResolvers<void>();
  world.memory("b").look = hung.promise;
  const [a, b] = await world.inventory(call);
  expect(new Set(a?.volumes.map(({ id }) => id)).size).toBe(2_500);
  expect([b?.volumes.length, b?.problem]).toEqual([0, expect.stringContaining("the volumes cannot be listed: ")]);
  hung.resolve();
});

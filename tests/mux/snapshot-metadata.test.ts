import { expect, test } from "bun:test";
import type { Driver } from "../../lib/drivers/driver.ts";
import { MemoryDriver, testCall } from "../fakes/memory-driver.ts";
import { codeOf, muxWorld } from "./world.ts";

const call = testCall();

/** The connections "a" and "b", of which only "a" lists blocks. */
function lister() {
  const world = muxWorld(["a", "b"]);
  const asked: unknown[] = [];
  const seen = { closed: 0, left: 0 };
  const driver: Driver = {
    ...new MemoryDriver().driver(),
    close: async () => void seen.closed++,
    snapshotMetadata: {
      async *ranges(id, base, from) {
        asked.push([id, base, from]);
        try {
          for (;;) yield { capacity: 1n << 30n, ranges: [] };
        } finally {
          seen.left++;
        }
      },
    },
  };
  world.traits.set("a", { driver });
  return { ...world, asked, seen };
}

test("a list goes to the connection of its snapshots, which stays open until the iteration is left", async () => {
  const { snapshotMetadata, asked, seen } = lister();
  const list = snapshotMetadata.ranges({ snapshot: "s:a/v@2", base: "s:a/v@1", from: 5n }, call);
  expect((await list.next()).value).toEqual({ capacity: 1n << 30n, ranges: [] });
  await list.next();
  expect([asked, seen]).toEqual([[["v@2", "v@1", 5n]], { closed: 0, left: 0 }]);
  await list.return();
  expect(seen).toEqual({ closed: 1, left: 1 });
});

test.each([
  ["snapshots of two connections", "s:a/v@2", "s:b/v@1", "invalid-argument"],
  ["a connection that lists no blocks, for which a full backup is made", "s:b/v@2", undefined, "failed-precondition"],
  ["an id that csimux cannot have created", "v:a/v", undefined, "not-found"],
  ["an earlier one that csimux cannot have created", "s:a/v@2", "other", "not-found"],
] as const)("refused is %s", async (_, snapshot, base, code) => {
  const { snapshotMetadata, asked } = lister();
  expect(await codeOf(snapshotMetadata.ranges({ snapshot, base, from: 0n }, call).next())).toBe(code);
  expect(asked).toEqual([]);
});

import { describe, expect, test } from "bun:test";
import { testCall } from "../fakes/memory-driver.ts";
import { codeOf, failure, muxWorld, request } from "./world.ts";

const call = testCall();

test("an expansion of a volume that is being copied is made when the copy ends soon", async () => {
  const world = muxWorld(["c"], undefined, undefined, 60_000);
  await world.volumes.create(request("v", "c"), call);
  const gate = Promise.withResolvers<void>();
  world.memory("c").gate = gate.promise;
  const copied = world.volumes.create(request("w", "c", { source: { kind: "volume", id: "v:c/v" } }), call);
  await Bun.sleep(0);
  const expanded = world.volumes.expand("v:c/v", { required: 2n << 20n, limit: undefined }, undefined, call);
  await Bun.sleep(0);
  gate.resolve();
  await copied;
  expect((await expanded).bytes).toBe(2n << 20n);
});

describe("while an operation on a volume runs on the driver of a file that was changed since", () => {
  type World = ReturnType<typeof muxWorld>;
  const range = { required: 2n << 20n, limit: undefined };
  const operations: Readonly<Record<string, (world: World) => Promise<unknown>>> = {
    create: world => world.volumes.create(request("v", "c"), call),
    delete: world => world.volumes.delete("v:c/v", call),
    expand: world => world.volumes.expand("v:c/v", range, undefined, call),
    modify: world => world.volumes.modify("v:c/v", { speed: "fast" }, call),
    restore: async world => {
      for (let round = 0; round < 2; round++) await world.checkHealth(call);
    },
  };
  test.each(Object.keys(operations))(
    "%s: others on the volume are aborted, whichever driver they would use",
    async slow => {
      const world = muxWorld(["c"], { look: 60_000, capacity: 60_000 });
      await world.volumes.create(request("v", "c"), call);
      const lost = [{ reason: "TargetMissing" as const, message: "" }];
      world.memory("c").findings = { storage: [], volumes: new Map([["v", lost]]), example: undefined };
      const gate = Promise.withResolvers<void>();
      const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
      const plain = world.memory("c").driver();
      const held =
        <A extends readonly unknown[], T>(work: (...args: A) => Promise<T>) =>
        async (...args: A): Promise<T> => {
          begin();
          await gate.promise;
          return work(...args);
        };
      const { health, expand, modify } = plain;
      if (!health?.restore || !expand || !modify) throw new Error("the memory driver has all abilities");
      world.traits.set("c", {
        driver: {
          ...plain,
          create: held(plain.create),
          delete: held(plain.delete),
          expand: { expand: held(expand.expand) },
          modify: { modify: held(modify.modify) },
          health: { ...health, restore: held(health.restore) },
        },
      });
      world.edit("c");
      const running = operations[slow]?.(world);
      await begun;
      world.traits.delete("c");
      world.edit("c");
      for (const [name, run] of Object.entries(operations))
        if (name !== slow && name !== "restore") expect([name, await codeOf(run(world))]).toEqual([name, "aborted"]);
      gate.resolve();
      await running;
      expect(await failure(operations["delete"]?.(world) ?? Promise.reject())).toBeUndefined();
    },
  );
});

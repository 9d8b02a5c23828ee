import { expect, test } from "bun:test";
import { specOf } from "../../lib/copies/record.ts";
import type { Driver } from "../../lib/drivers/driver.ts";
import { copyDriver } from "../fakes/memory-copies.ts";
import { commanded, pair } from "./pair.ts";

const wanted = {
  ...{ source: "v:a/source", name: "moved", bytes: 1n << 20n, parameters: { connection: "b" } },
  ...{ capabilities: [], mutable: {} },
};
const pass = { command: "pass", target: "v:b/moved" } as const;
const freeze = { command: "freeze", volume: "v:a/source" } as const;

test("the stop of a move ends that the claim gets the source again by itself, before the source is set to read-only, and a repetition changes nothing", async () => {
  const world = pair();
  const done: unknown[][] = [];
  let claim: string | undefined = "shop/data";
  const source = (): Driver => {
    const whole = copyDriver(world.on("a"), "a");
    const { reading, copySource } = whole;
    if (!reading || !copySource) throw new Error("the source of a copy is read");
    const get: typeof reading.get = async (id, own) => ({
      ...(await reading.get(id, own)),
      tenure: { claim, holder: id, shape: "mount", retain: true, instance: "east" },
    });
    return {
      ...whole,
      reading: { get },
      adoption: {
        adopt: async (object, mark, own) => {
          done.push(["adopt", object, mark]);
          claim = undefined;
          return { ...(await get(object, own)), marked: true };
        },
      },
      copySource: { ...copySource, freeze: async (id, on) => void done.push(["freeze", id, on]) },
    };
  };
  const drivers = new Map([
    ["a", source],
    ["b", () => copyDriver(world.on("b"), "b")],
  ]);
  const one = world.process({ drivers });
  await commanded(one, { command: "begin", ...wanted });
  await commanded(one, pass);
  // A copy alone leaves the claim its volume.
  expect(done).toEqual([]);
  for (const _ of [1, 2]) await commanded(one, freeze);
  await commanded(one, { command: "thaw", volume: "v:a/source" });
  expect(done).toEqual([
    ["adopt", "source", true],
    ["freeze", "source", true],
    ["freeze", "source", true],
    ["freeze", "source", false],
  ]);
  await one.stop(1_000);
});

test("a move tells the driver that the class keeps the volume, which is for no claim", async () => {
  const world = pair();
  const one = world.process();
  await commanded(one, { command: "begin", ...wanted });
  const move = { parameters: { ...wanted.parameters, deleteStrategy: "retain" }, mutable: {} };
  const tenant = { claim: undefined, holder: "moved", shape: "", retain: true };
  expect(specOf({ ...world.record("moved"), move })).toMatchObject({ ...move, tenant });
  expect(specOf(world.record("moved")).tenant).toBeUndefined();
  await one.stop(1_000);
});

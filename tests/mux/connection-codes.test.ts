import { expect, test } from "bun:test";
import type { CsiError } from "../../lib/core/errors.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { hour, nameOf, filesWorld as world } from "./files-world.ts";
import { codeOf, failure, muxWorld, request } from "./world.ts";

const call = testCall();

test.each([
  ["refuse", "bad", "unavailable"],
  ["retry", "bad", "unavailable"],
  ["refuse", "unreadable", "unavailable"],
  ["retry", "unreadable", "unavailable"],
  ["refuse", undefined, "failed-precondition"],
  ["retry", undefined, "unavailable"],
] as const)(
  "an hour after the start, a connection named by a %s whose file is %p answers %s",
  async (origin, text, code) => {
    const { files, clock, connections } = world();
    clock.now = hour;
    if (text !== undefined) files.set("c", text);
    await expect(connections.use("c", origin, nameOf)).rejects.toMatchObject({ code });
  },
);

test("a class whose connection was removed answers UNAVAILABLE for an hour, since a volume may have been begun", async () => {
  const { files, clock, connections } = world();
  const code = () => connections.use("c", "refuse", nameOf).catch((error: CsiError) => error.code);
  clock.now = hour;
  expect(await code()).toBe("failed-precondition");
  files.set("c", "bad from the start");
  expect(await code()).toBe("unavailable");
  files.delete("c");
  expect(await code()).toBe("unavailable");
  files.set("c", "one");
  expect(await code()).toBe("c");
  for (const text of [undefined, "bad now", undefined]) {
    if (text === undefined) files.delete("c");
    else files.set("c", text);
    expect(await code()).toBe("unavailable");
  }
  clock.now = 2 * hour;
  expect(await code()).toBe("failed-precondition");
});

test("a class answers UNAVAILABLE for a connection that this process has never opened, for what the process before may have made", async () => {
  const { files, clock, connections } = world();
  const failed = () => connections.use("c", "refuse", nameOf).catch((error: CsiError) => error);
  expect(await failed()).toMatchObject({ code: "unavailable", message: expect.stringContaining("c.yaml") });
  files.set("c", "bad from the start");
  expect(await failed()).toMatchObject({ code: "unavailable", message: expect.stringContaining("line 1") });
  clock.now = 100 * hour;
  expect(await failed()).toMatchObject({ code: "unavailable" });
  files.delete("c");
  expect(await failed()).toMatchObject({ code: "unavailable" });
  clock.now += hour;
  expect(await failed()).toMatchObject({ code: "failed-precondition" });
});

type Mux = ReturnType<typeof muxWorld>;

test.each<[string, (mux: Mux) => Promise<unknown>]>([
  ["expand", ({ volumes }) => volumes.expand("v:c/v", { required: 2n, limit: undefined }, undefined, call)],
  ["modify", ({ volumes }) => volumes.modify("v:c/v", { speed: "slow" }, call)],
  ["modify", ({ volumes }) => volumes.create(request("w", "c", { mutable: { speed: "slow" } }), call)],
  ["groupSnapshots", ({ groupSnapshots }) => groupSnapshots.create("g", ["v:c/v"], {}, call)],
  ["health", ({ volumes }) => volumes.health("v:c/v", call)],
])(
  "a connection without the ability %p refuses with INVALID_ARGUMENT, its name and its driver",
  async (ability, ask) => {
    const mux = muxWorld(["c"]);
    mux.traits.set("c", { driver: { ...mux.memory("c").driver(), [ability]: undefined } });
    await mux.volumes.create(request("v", "c"), call);
    const error = await failure(ask(mux));
    expect(error).toMatchObject({ code: "invalid-argument" });
    expect(error?.message).toContain('connection "c" (driver memory) cannot');
  },
);

test("a volume whose connection lacks abilities can be changed in no property, and has no condition", async () => {
  const mux = muxWorld(["c"]);
  mux.traits.set("c", { driver: { ...mux.memory("c").driver(), modify: undefined, health: undefined } });
  await mux.volumes.create(request("v", "c"), call);
  await mux.volumes.modify("v:c/v", {}, call);
  expect(await codeOf(mux.volumes.modify("v:c/absent", {}, call))).toBe("not-found");
  expect(await mux.volumes.condition("v:c/v", call)).toBeUndefined();
});

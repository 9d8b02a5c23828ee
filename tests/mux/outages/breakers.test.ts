import { describe, expect, setSystemTime, test } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
import { testCall } from "../../fakes/memory-driver.ts";
import { pause } from "../../waiting.ts";
import { codeOf, failure, request, snapshotOf } from "../world.ts";
import { away, world } from "./world.ts";

const call = testCall();

test("calls for an unreachable storage system are refused at once, with the reason and the time of the next attempt", async () => {
  const { volumes, snapshots, listing, capacity, memory, die } = world(["a", "b"]);
  await volumes.create(request("v", "a"), call);
  await die("a");
  memory("a").fail = {};
  const before = memory("a").volumes.size;
  const all = { capabilities: [], parameters: { connection: "a" }, segment: undefined };
  const calls = {
    delete: () => volumes.delete("v:a/v", call),
    expand: () => volumes.expand("v:a/v", { required: 2n << 20n, limit: undefined }, undefined, call),
    create: () => volumes.create(request("w", "a"), call),
    get: () => volumes.get("v:a/v", call),
    health: () => volumes.health("v:a/v", call),
    snapshot: () => snapshots.create(snapshotOf("s", "v:a/v"), call),
    "delete snapshot": () => snapshots.delete("s:a/s", call),
    list: () => listing.volumes({ max: 0, token: "" }, call),
    capacity: () => capacity.available(all, call),
  };
  for (const [what, make] of Object.entries(calls)) {
    const failed = await failure(make());
    expect([what, failed?.code]).toEqual([what, "unavailable"]);
    expect(failed?.message).toMatch(/"a" has been unreachable since \d{4}-.*Z; next attempt at .*Z: no route to host/);
  }
  expect(memory("a").volumes.size).toBe(before);
  expect(await failure(volumes.create(request("v", "b"), call))).toBeUndefined();
});

test("a stuck volume opens no breaker while the check succeeds or fails for another reason", async () => {
  for (const code of [undefined, "failed-precondition", "internal"] as const) {
    const { fail, outage, memory } = world(["a"]);
    memory("a").check = async () => {
      if (code) throw new CsiError(code, "not so");
    };
    await fail("a", 12);
    expect(outage("a")).toBeUndefined();
  }
});

test("a driver without a check is always called", async () => {
  const { fail, outage, memory, volumes } = world(["a"]);
  memory("a").check = undefined;
  await fail("a", 12);
  expect(outage("a")).toBeUndefined();
  memory("a").fail = {};
  expect(await failure(volumes.delete("v:a/x", call))).toBeUndefined();
});

test("a call in progress continues, and its success closes the breaker", async () => {
  const { volumes, memory, die, outage } = world(["a"]);
  const { promise, resolve } = Promise.withResolvers<void>();
  memory("a").gate = promise;
  const running = volumes.create(request("v", "a"), call);
  for (let ticks = 0; ticks < 20; ticks++) await Promise.resolve();
  await die("a");
  resolve();
  expect((await running).id).toBe("v:a/v");
  expect(outage("a")).toBeUndefined();
});

test("a storage is good since its outage ended, also if only calls have noticed it", async () => {
  const { volumes, memory, die, stored } = world(["a"]);
  const { promise, resolve } = Promise.withResolvers<void>();
  memory("a").gate = promise;
  const running = volumes.create(request("v", "a"), call);
  for (let ticks = 0; ticks < 20; ticks++) await Promise.resolve();
  await die("a");
  expect(stored("a")?.since).toBeUndefined();
  const later = Date.now() + 600_000;
  setSystemTime(later);
  resolve();
  await running;
  const after = stored("a");
  setSystemTime();
  expect(after).toMatchObject({ state: "good", since: later });
});

test("a call that was begun with an old file says nothing about the storage of the new one", async () => {
  const { volumes, memory, traits, die, stored, edit } = world(["a"]);
  const { promise, resolve } = Promise.withResolvers<void>();
  memory("a").gate = promise;
  const running = volumes.create(request("v", "a"), call);
  for (let ticks = 0; ticks < 20; ticks++) await Promise.resolve();
  await die("a");
  memory("a").fail = {};
  traits.set("a", { retain: true });
  edit("a");
  await failure(volumes.get("v:a/other", call));
  resolve();
  await running;
  expect(stored("a")?.state).toBe("not-checked");
});

test("retained volumes are deleted without their storage system", async () => {
  for (const retain of [true, false]) {
    const { volumes, traits, memory, outage } = world(["a"]);
    traits.set("a", { retain });
    memory("a").check = () => Promise.reject(away);
    memory("a").fail = { find: away, create: away };
    for (let i = 0; i < 3; i++) await failure(volumes.create(request("v", "a"), call));
    for (let ticks = 0; ticks < 50; ticks++) await Promise.resolve();
    expect(outage("a")).toBeDefined();
    expect(await codeOf(volumes.delete("v:a/v", call))).toBe(retain ? undefined : "unavailable");
  }
});

test("a changed file closes the breaker, unless it suspends the connection", async () => {
  const { volumes, memory, traits, die, outage, edit } = world(["a"]);
  await die("a");
  memory("a").fail = {};
  traits.set("a", { suspended: true });
  edit("a");
  await failure(volumes.get("v:a/v", call));
  expect(outage("a")).toBeDefined();
  traits.delete("a");
  edit("a");
  expect(await failure(volumes.delete("v:a/v", call))).toBeUndefined();
  expect(outage("a")).toBeUndefined();
});

describe("a group skips an unreachable member", () => {
  test("even for a volume that was begun on it", async () => {
    const { volumes, memory, die } = world(["a", "b"], ["a", "b"]);
    memory("a").fail.create = away;
    expect(await codeOf(volumes.create(request("v", "g"), call))).toBe("unavailable");
    await die("a");
    expect((await volumes.create(request("v", "g"), call)).id).toBe("v:b/v");
  });

  test("with an answer that is not final if no other member takes the volume", async () => {
    const { volumes, memory, die } = world(["a", "b"], ["a", "b"]);
    for (const name of ["a", "b"]) memory(name).free = 0n;
    expect(await codeOf(volumes.create(request("v", "g"), call))).toBe("resource-exhausted");
    await die("a");
    const none = await failure(volumes.create(request("v", "g"), call));
    expect(none?.code).toBe("unavailable");
    expect(none?.message).toContain('connection "a": it is unreachable');
    memory("b").free = 1n << 40n;
    expect((await volumes.create(request("v", "g"), call)).id).toBe("v:b/v");
  });

  test("for a clone of a volume elsewhere, but not for one of a volume on it", async () => {
    const { volumes, die } = world(["a", "b"], ["a", "b"]);
    const from = async (name: string) => ({
      source: { kind: "volume" as const, id: (await volumes.create(request(`${name}0`, name), call)).id },
    });
    const [fromA, fromB] = [await from("a"), await from("b")];
    await die("a");
    expect((await volumes.create(request("v", "g", fromB), call)).id).toBe("v:b/v");
    expect(await codeOf(volumes.create(request("w", "g", fromA), call))).toBe("unavailable");
  });
});

test("a check of the health of an unreachable storage system still reports what it finds", async () => {
  const { memory, die, volumes } = world(["a"]);
  await volumes.create(request("v", "a"), call);
  memory("a").findings = {
    storage: [{ reason: "PoolFaulted", message: "" }],
    volumes: new Map(),
    example: undefined,
  };
  await die("a");
  const reasons = async () => (await volumes.health("v:a/v", call)).map(({ reason }) => reason);
  expect(await reasons()).toEqual(["PoolFaulted"]);
  memory("a").fail.health = away;
  for (let i = 0; i < 2; i++) expect(await codeOf(reasons())).toBe("unavailable");
  expect(memory("a").lookedAt).toBe(2);
});

test("the time of the next attempt is never in the past: during the check it is said to run, whatever the clock does", async () => {
  const { volumes, memory, die } = world(["a"]);
  await die("a");
  const refusal = async () => (await failure(volumes.create(request("v", "a"), call)))?.message ?? "";
  const seen = async (wanted: RegExp) => {
    const until = performance.now() + 10_000;
    let text = await refusal();
    while (!wanted.test(text) && performance.now() < until) {
      await pause(5);
      text = await refusal();
    }
    return text;
  };
  try {
    const text = await seen(/next attempt at/);
    expect(Date.parse(/next attempt at (\S+Z):/.exec(text)?.[1] ?? "")).toBeGreaterThanOrEqual(Date.now() - 1_000);
    setSystemTime(new Date(Date.now() + 86_400_000));
    const later = await refusal();
    expect(Date.parse(/next attempt at (\S+Z):/.exec(later)?.[1] ?? "")).toBeGreaterThan(Date.now() - 1_000);
    memory("a").check = () => new Promise(() => {});
    expect(await seen(/being checked now/)).toContain("it is being checked now: no route to host");
  } finally {
    setSystemTime();
  }
});

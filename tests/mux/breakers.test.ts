import { afterEach, describe, expect, setSystemTime, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { pause } from "../waiting.ts";
import { codeOf, failure, muxWorld, request, snapshotOf } from "./world.ts";

const call = testCall();
const away = new CsiError("unavailable", "no route to host");
const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

/** A router over storages with a check. `die` lets one fail like a machine that is switched off, until its breaker is open. */
function world(names: readonly string[], group?: readonly string[], times = {}) {
  const mux = muxWorld(names, { look: 50, capacity: 50, ...times });
  stops.push(() => mux.stop(10));
  for (const name of names) mux.memory(name).check = async () => {};
  if (group) mux.groups.set("g", { from: { kind: "members", members: group }, policy: "ordered" });
  const seen = (name: string) => mux.overview(new Map()).connections.find(each => each.name === name);
  const outage = (name: string) => seen(name)?.outage;
  const stored = (name: string) => seen(name)?.health.storage;
  const fail = async (name: string, times = 3): Promise<void> => {
    const memory = mux.memory(name);
    memory.fail.delete = away;
    for (let i = 0; i < times; i++) await failure(mux.volumes.delete(`v:${name}/x${i}`, call));
    // The check runs by itself.
    for (let ticks = 0; ticks < 50; ticks++) await Promise.resolve();
  };
  const die = async (name: string): Promise<void> => {
    const memory = mux.memory(name);
    memory.check = async () => {
      throw away;
    };
    memory.fail.find = away;
    await fail(name);
    expect(outage(name)).toBeDefined();
  };
  return { ...mux, outage, stored, fail, die };
}

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

test("an open breaker is a condition of the connection", async () => {
  const { memory, die, checkHealth, overview, volumes } = world(["a"]);
  await volumes.create(request("v", "a"), call);
  const reasons = async () => {
    for (let i = 0; i < 3; i++) await checkHealth(call);
    return overview(new Map()).connections[0]?.health.conditions.map(({ reason }) => reason);
  };
  expect(await reasons()).toEqual([]);
  const { promise, resolve } = Promise.withResolvers<void>();
  memory("a").gate = promise;
  const running = volumes.create(request("w", "a"), call);
  for (let ticks = 0; ticks < 20; ticks++) await Promise.resolve();
  await die("a");
  expect(await reasons()).toEqual(["StorageUnavailable"]);
  resolve();
  await running;
  expect(await reasons()).toEqual([]);
});

test("only one claim waits for a member that hangs; it is asked again after its check has succeeded", async () => {
  const { volumes, memory, traits } = world(["a", "b"], ["a", "b"]);
  const check = Promise.withResolvers<void>();
  memory("a").check = () => check.promise;
  let asked = 0;
  let hangs = true;
  const driver = memory("a").driver();
  const find = (name: string, own: typeof call) => {
    asked++;
    if (!hangs) return driver.names?.find(name, own) ?? Promise.resolve(undefined);
    return new Promise<never>((_, reject) => own.signal.addEventListener("abort", () => reject(own.signal.reason)));
  };
  traits.set("a", { driver: { ...driver, names: { idOf: name => name, find, discard: async () => {} } } });
  expect((await volumes.create(request("v0", "g"), call)).id).toBe("v:b/v0");
  const claims = Array.from({ length: 20 }, (_, index) => volumes.create(request(`w${index}`, "g"), call));
  for (const { id, context } of await Promise.all(claims))
    expect([id.slice(0, 4), context["skipped"]]).toEqual(["v:b/", "a"]);
  expect(asked).toBe(1);
  hangs = false;
  check.resolve();
  for (let ticks = 0; ticks < 50; ticks++) await Promise.resolve();
  expect((await volumes.create(request("x", "g"), call)).id).toBe("v:a/x");
});

test("a host that accepts connections again is checked at once, and a failed check is repeated at short intervals again", async () => {
  const { memory, traits, die, outage, edit, volumes } = world(["a"], undefined, { answers: 5 });
  let accepts = false;
  const events: string[] = [];
  const answers = async () => {
    events.push(accepts ? "accepts" : "silent");
    return accepts;
  };
  traits.set("a", { answers });
  edit("a");
  await volumes.create(request("v", "a"), call);
  await die("a");
  memory("a").check = async () => {
    const isFirst = !events.includes("check");
    events.push("check");
    if (isFirst) throw away;
  };
  const until = performance.now() + 10_000;
  const seen = async (holds: () => boolean) => {
    while (!holds() && performance.now() < until) await pause(2);
  };
  await seen(() => events.length > 2);
  accepts = true;
  await seen(() => outage("a") === undefined);
  const told = events.filter((event, index) => event !== events[index - 1]);
  expect(told).toEqual(["silent", "accepts", "check", "accepts", "check"]);
  expect(events.filter(event => event === "silent").length).toBeGreaterThan(2);
});

test("only one question for the capacity of a storage that hangs waits; it is asked again after its check has succeeded", async () => {
  const { capacity, memory, traits } = world(["a", "b"]);
  const check = Promise.withResolvers<void>();
  memory("a").check = () => check.promise;
  let asked = 0;
  let hangs = true;
  const available = (_: object, own: typeof call) => {
    asked++;
    if (!hangs) return Promise.resolve(7n);
    return new Promise<never>((_, reject) => own.signal.addEventListener("abort", () => reject(own.signal.reason)));
  };
  traits.set("a", { driver: { ...memory("a").driver(), capacity: { available } } });
  const ask = (parameters: Record<string, string>) =>
    capacity.available({ capabilities: [], parameters, segment: undefined }, call);
  expect((await failure(ask({ connection: "a" })))?.message).toContain("has not answered for");
  for (const size of ["1", "2", "3"])
    expect((await failure(ask({ connection: "a", size })))?.message).toContain("is being checked now");
  expect(await ask({ connection: "b" })).toBeGreaterThan(0n);
  expect(asked).toBe(1);
  hangs = false;
  check.resolve();
  for (let ticks = 0; ticks < 50; ticks++) await Promise.resolve();
  const same = Array.from({ length: 20 }, () => ask({ connection: "a" }));
  const known = await Promise.all([...same, ask({ connection: "a", size: "1" })]);
  expect(new Set(known)).toEqual(new Set([7n]));
  expect(asked).toBe(3);
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

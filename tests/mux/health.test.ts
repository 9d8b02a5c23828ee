import { expect, test } from "bun:test";
import type { Call } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { StorageFindings } from "../../lib/drivers/driver.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { passing, pause } from "../waiting.ts";
import { codeOf, failure, muxWorld, request } from "./world.ts";

const call = testCall();
const volume = (id: string) => ({ id, bytes: 1n, context: {}, source: undefined });

/** What a check finds: reasons for the whole storage, and by volume. */
const found = (
  storage: readonly StorageFindings["storage"][number]["reason"][],
  volumes: Readonly<Record<string, StorageFindings["storage"][number]["reason"]>> = {},
): StorageFindings => ({
  storage: storage.map(reason => ({ reason, message: `${reason} here` })),
  volumes: new Map(Object.entries(volumes).map(([id, reason]) => [id, [{ reason, message: `${reason} here` }]])),
  example: undefined,
});

/** A router over connections that have three volumes each. */
function world(names: readonly string[], health?: { readonly hold: number; readonly fresh: number }) {
  const mux = muxWorld(names, undefined, health);
  for (const name of names) for (const id of ["1", "2", "3"]) mux.memory(name).volumes.set(id, volume(id));
  const list = async (max = 0) => {
    const seen: string[] = [];
    let token = "";
    for (let pages = 0; pages < 50; pages++) {
      const page = await mux.listing.health({ max, token }, call);
      seen.push(...page.items.map(({ id, conditions }) => `${id} ${conditions.map(({ reason }) => reason).join("+")}`));
      if (page.next === undefined) return seen;
      token = page.next;
    }
    throw new Error("the listing does not end");
  };
  const reasons = async (id: string) => (await mux.volumes.health(id, call)).map(({ reason }) => reason);
  return { ...mux, list, reasons };
}

test("conditions of a volume and of its storage system are reported of the volume until they end", async () => {
  const { memory, reasons } = world(["a"]);
  expect(await reasons("v:a/1")).toEqual([]);
  memory("a").findings = found(["PoolDegraded"], { 1: "QuotaFull" });
  expect(await reasons("v:a/1")).toEqual(["PoolDegraded", "QuotaFull"]);
  expect(await reasons("v:a/2")).toEqual(["PoolDegraded"]);
  memory("a").findings = found([]);
  expect(await reasons("v:a/1")).toEqual([]);
});

test("a volume that does not exist is not found, but one that is known to be lost is reported as lost", async () => {
  const { memory, volumes, reasons } = world(["a"]);
  expect(await codeOf(volumes.health("v:a/none", call))).toBe("not-found");
  expect(await codeOf(volumes.health("what", call))).toBe("not-found");
  memory("a").findings = found([], { lost: "VolumeMissing" });
  expect(await reasons("v:a/lost")).toEqual(["VolumeMissing"]);
});

test("a health listing has only the volumes with conditions, of all connections, in pages of any size", async () => {
  for (const max of [0, 1, 2, 5]) {
    const { memory, list } = world(["a", "b", "c"]);
    memory("a").findings = found([], { 2: "QuotaFull" });
    memory("b").findings = found(["PoolDegraded"], { 1: "ShareMissing", lost: "VolumeMissing" });
    expect(await list(max)).toEqual([
      "v:a/2 QuotaFull",
      "v:b/1 PoolDegraded+ShareMissing",
      "v:b/2 PoolDegraded",
      "v:b/3 PoolDegraded",
      "v:b/lost PoolDegraded+VolumeMissing",
    ]);
  }
});

test("a health listing checks each storage system once, and lists volumes only if all of them are concerned", async () => {
  const { memory, list } = world(["a", "b"], { hold: 0, fresh: 60_000 });
  memory("a").findings = found([], { 1: "QuotaFull", 2: "QuotaFull" });
  await list();
  expect([memory("a").lookedAt, memory("a").asked, memory("b").lookedAt]).toEqual([1, 0, 1]);
  await list(1);
  expect([memory("a").lookedAt, memory("a").asked]).toEqual([1, 0]);
});

test.each(["x", "a!z1", "a/1", "!"])("the token %p is ABORTED", async token => {
  expect(await codeOf(world(["a"]).listing.health({ max: 0, token }, call))).toBe("aborted");
});

test("a storage system that cannot be checked is an error of the call, not a condition, unless listings may be partial", async () => {
  const { memory, volumes, listing, settings, list } = world(["a", "b"]);
  memory("a").findings = found([], { 1: "QuotaFull" });
  memory("b").fail.health = new CsiError("unavailable", "it is down");
  expect(await failure(volumes.health("v:b/1", call))).toMatchObject({ code: "unavailable", message: "it is down" });
  const error = await failure(listing.health({ max: 0, token: "" }, call));
  expect([error?.code, error?.message.includes('"b"')]).toEqual(["unavailable", true]);
  settings.listing = "partial";
  expect(await list()).toEqual(["v:a/1 QuotaFull"]);
});

test("a condition starts and ends only after its cause has lasted, except at the first check", async () => {
  const { memory, reasons } = world(["a"], { hold: 60, fresh: 0 });
  memory("a").findings = found(["PoolDegraded"]);
  expect(await reasons("v:a/1")).toEqual(["PoolDegraded"]);
  memory("a").findings = found(["StorageFull"]);
  expect(await reasons("v:a/1")).toEqual(["PoolDegraded"]);
  const changed = async () => (await reasons("v:a/1")).join() === "StorageFull";
  const begun = performance.now();
  while (!(await changed())) await pause(5);
  expect(performance.now() - begun).toBeGreaterThanOrEqual(50);
});

test("each change is one line of the log, and so is a storage system that can no longer be checked", async () => {
  const { memory, checkHealth } = world(["a"]);
  const lines: string[] = [];
  const log: Call["log"] = {
    ...call.log,
    info: (text, fields) => void lines.push(`${text} ${Object.values(fields ?? {}).join(" ")}`),
    warn: (text, fields) => void lines.push(`${text} ${Object.values(fields ?? {}).join(" ")}`),
  };
  const looks = async (...all: readonly StorageFindings[]) => {
    for (const each of all) {
      memory("a").findings = each;
      for (const _ of [1, 2]) await checkHealth({ ...call, log });
    }
    return lines.splice(0);
  };
  expect(await looks(found(["PoolDegraded"], { 1: "QuotaFull" }), found([]))).toEqual([
    "a storage is degraded a PoolDegraded PoolDegraded here",
    "a volume is degraded a v:a/1 QuotaFull QuotaFull here",
    "a storage is no longer degraded a PoolDegraded",
    "a volume is no longer degraded a v:a/1 QuotaFull",
  ]);
  memory("a").fail.health = new CsiError("unavailable", "down");
  expect(await looks(found([]))).toEqual(["cannot check the health of a storage a down"]);
  memory("a").fail = {};
  expect(await looks(found([]))).toEqual(["the health of a storage can be checked again a"]);
});

test("the condition of a storage is forgotten with the last valid file of its connection", async () => {
  const { up, broken, memory, checkHealth, overview, volumes } = world(["a"]);
  memory("a").findings = found(["StorageFull"]);
  const seen = async () => {
    // Whoever uses a connection sees what became of its file.
    await failure(volumes.get("v:a/1", call));
    await checkHealth(call);
    const [one] = overview(new Map()).connections;
    return [one?.state, ...(one?.health.conditions.map(({ reason }) => reason) ?? [])];
  };
  expect(await seen()).toEqual(["good", "StorageFull"]);
  broken.add("a");
  expect(await seen()).toEqual(["degraded", "StorageFull"]);
  up.delete("a");
  expect(await seen()).toEqual(["gone"]);
  up.add("a");
  expect(await seen()).toEqual(["bad"]);
  broken.clear();
  expect(await seen()).toEqual(["good", "StorageFull"]);
});

test("a deleted volume is forgotten at once", async () => {
  const { memory, volumes, list, checkHealth } = world(["a"], { hold: 60_000, fresh: 60_000 });
  memory("a").findings = found([], { 1: "QuotaFull" });
  await checkHealth(call);
  expect(await list()).toEqual(["v:a/1 QuotaFull"]);
  await volumes.delete("v:a/1", call);
  expect(await list()).toEqual([]);
});

test("nodes get volume contexts of the connections that they reach", async () => {
  const { memory, traits, checkHealth, examples } = world(["a", "b"]);
  traits.set("a", { accessibleTopology: [{ requirements: { "t.example/zone": "x" }, extra: {} }] });
  for (const name of ["a", "b"]) memory(name).findings = { ...found([]), example: { server: name } };
  await checkHealth(call);
  expect(examples({ "t.example/zone": "x" })).toEqual([{ server: "a" }, { server: "b" }]);
  expect(examples({ "t.example/zone": "y" })).toEqual([{ server: "b" }]);
});

test("exports and targets that stay missing are restored, and nothing else; a failure is logged once a round", async () => {
  const { memory, checkHealth } = world(["a"], { hold: 1, fresh: 60_000 });
  const told: string[] = [];
  const tell = (message: string) => void told.push(message);
  const log: Call["log"] = { ...call.log, info: tell, warn: tell };
  const round = async () => {
    memory("a").repaired.length = 0;
    told.length = 0;
    // What is held for a millisecond is over.
    await passing(2);
    await checkHealth({ ...call, log });
    return memory("a").repaired;
  };
  expect(await round()).toEqual([]);
  memory("a").findings = found([], { 1: "TargetMissing", 2: "QuotaFull", 3: "ShareMissing" });
  expect(await round()).toEqual([]);
  expect(await round()).toEqual(["1", "3"]);
  expect(told.filter(each => each.includes("restored the missing"))).toHaveLength(2);
  memory("a").fail.repair = new CsiError("unavailable", "no");
  expect(await round()).toEqual(["1"]);
  expect(told).toEqual(["cannot restore the missing export or target of a volume"]);
  // What a person has to do for one volume does not concern the others.
  memory("a").fail.repair = new CsiError("failed-precondition", "no");
  expect(await round()).toEqual(["1", "3"]);
  expect(told).toHaveLength(2);
  memory("a").findings = found([]);
  expect(await round()).toEqual([]);
});

test("a volume whose handle is longer than CSI allows is shown like any other", async () => {
  const long = `tank/${"x".repeat(140)}`;
  const mux = world(["a"]);
  mux.memory("a").volumes.set(long, volume(long));
  mux.memory("a").findings = found([], { [long]: "QuotaFull", 1: "QuotaFull" });
  const lines: unknown[] = [];
  const log = { ...call.log, warn: (_: string, fields?: object) => void lines.push(fields) };
  for (let round = 0; round < 2; round++) await mux.checkHealth({ ...call, log });
  const view = mux.overview(new Map()).connections[0]?.health;
  expect(view?.volumes.map(each => each.volume)).toEqual(["v:a/1", `v:a/${long}`]);
  expect(lines).toContainEqual(expect.objectContaining({ volume: `v:a/${long}`, reason: "QuotaFull" }));
  expect(await mux.list()).toEqual(["v:a/1 QuotaFull", `v:a/${long} QuotaFull`]);
});

/** A driver whose health check ends with the gate, or with its own call. */
function slowLook(mux: ReturnType<typeof muxWorld>, name: string) {
  const gate = Promise.withResolvers<StorageFindings>();
  const calls: Call[] = [];
  const look = (own: Call) => {
    calls.push(own);
    own.signal.addEventListener("abort", () => gate.reject(own.signal.reason), { once: true });
    return gate.promise;
  };
  mux.traits.set(name, { driver: { ...mux.memory(name).driver(), health: { look } } });
  return { gate, calls };
}

test("a check that several callers wait for continues after the first one has left", async () => {
  const mux = muxWorld(["a"], { look: 60_000, capacity: 60_000 }, { hold: 0, fresh: 0 });
  mux.memory("a").volumes.set("1", volume("1"));
  const { gate, calls } = slowLook(mux, "a");
  const impatient = new AbortController();
  const first = failure(mux.volumes.health("v:a/1", testCall(impatient.signal)));
  const second = mux.volumes.health("v:a/1", call);
  while (calls.length === 0) await new Promise(resolve => setImmediate(resolve));
  impatient.abort(new CsiError("deadline-exceeded", "the deadline of the call has passed"));
  expect((await first)?.code).toBe("deadline-exceeded");
  // Its caller has left, and only the check itself holds the connection.
  expect(mux.memory("a").closed).toBe(0);
  gate.resolve(found([], { 1: "QuotaFull" }));
  expect((await second).map(({ reason }) => reason)).toEqual(["QuotaFull"]);
  expect([calls.length, mux.overview(new Map()).connections[0]?.health.storage.reason]).toEqual([1, undefined]);
});

test("a defect in one check is an error in the log, and all other storage systems are checked", async () => {
  const mux = world(["a", "b", "c"]);
  const look = async (): Promise<StorageFindings> => {
    throw new TypeError("not a finding");
  };
  mux.traits.set("b", { driver: { ...mux.memory("b").driver(), health: { look } } });
  const errors: unknown[] = [];
  const log = { ...call.log, error: (_: string, fields?: object) => void errors.push(fields) };
  await mux.checkHealth({ ...call, log });
  expect(errors).toEqual([{ connection: "b", reason: expect.stringContaining("TypeError: not a finding") }]);
  expect(["a", "c"].map(name => mux.memory(name).lookedAt)).toEqual([1, 1]);
});

test("storage systems that hang delay a round once, wherever they are among the others", async () => {
  const names = Array.from({ length: 200 }, (_, index) => `c${String(index).padStart(3, "0")}`);
  // Long in comparison with a moment in which a busy machine does nothing for this process.
  const limit = 2_000;
  const mux = muxWorld(names, { look: limit, capacity: limit });
  const never = () => new Promise<StorageFindings>(() => undefined);
  for (const name of names.filter((_, index) => index % 50 === 0))
    mux.traits.set(name, { driver: { ...mux.memory(name).driver(), health: { look: never } } });
  const from = performance.now();
  await mux.checkHealth(call);
  expect(performance.now() - from).toBeLessThan(2 * limit);
});

test("the condition of a volume is unknown, and no error, while its storage cannot be checked", async () => {
  const world = muxWorld(["a"]);
  await world.volumes.create(request("v", "a"), call);
  expect(await world.volumes.condition("v:a/v", call)).toEqual([]);
  world.memory("a").fail.health = new CsiError("unavailable", "no route to host");
  expect(await world.volumes.condition("v:a/v", call)).toBeUndefined();
  expect(await world.volumes.condition("v:gone/v", call)).toBeUndefined();
});

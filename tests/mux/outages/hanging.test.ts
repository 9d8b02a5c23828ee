import { expect, test } from "bun:test";
import { testCall } from "../../fakes/memory-driver.ts";
import { pause } from "../../waiting.ts";
import { failure, request } from "../world.ts";
import { away, world } from "./world.ts";

const call = testCall();

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

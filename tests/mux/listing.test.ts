import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import type { PageRequest } from "../../lib/drivers/driver.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { fc } from "../fast-check.ts";
import { passing } from "../waiting.ts";
import { codeOf, failure, muxWorld, snapshotOf } from "./world.ts";

const call = testCall();
const volume = (id: string) => ({ id, bytes: 1n, context: {}, source: undefined });

test("pages of any size have every volume of every connection once, in one order", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat({ max: 5 }), { maxLength: 40 }),
      fc.integer({ min: 1, max: 9 }),
      async (counts, max) => {
        const names = counts.map((_, i) => `c${String(i).padStart(3, "0")}`);
        const world = muxWorld(names);
        const expected = names.flatMap((name, i) =>
          Array.from({ length: counts[i] ?? 0 }, (_, n) => {
            world.memory(name).volumes.set(`v${n}`, volume(`v${n}`));
            return `v:${name}/v${n}`;
          }),
        );
        const seen: string[] = [];
        let token = "";
        for (let pages = 0; pages < 300; pages++) {
          const page = await world.listing.volumes({ max, token }, call);
          expect(page.items.length).toBeLessThanOrEqual(max);
          seen.push(...page.items.map(item => item.id));
          if (page.next === undefined) break;
          token = page.next;
        }
        expect(seen).toEqual(expected);
      },
    ),
    { numRuns: 60 },
  );
});

test("a thousand connections are listed in order, and a page may end anywhere between them", async () => {
  const names = Array.from({ length: 1000 }, (_, i) => `c${String(i).padStart(4, "0")}`);
  const world = muxWorld(names);
  for (const name of names) world.memory(name).volumes.set("v", volume("v"));
  const first = await world.listing.volumes({ max: 0, token: "" }, call);
  const rest = await world.listing.volumes({ max: 0, token: first.next ?? "" }, call);
  expect([...first.items, ...rest.items].map(item => item.id)).toEqual(names.map(name => `v:${name}/v`));
  expect(rest.next).toBeUndefined();
});

test("a connection that does not answer fails the listing, which names it, unless listings may be partial", async () => {
  const world = muxWorld(["a", "b"]);
  world.memory("a").volumes.set("v", volume("v"));
  world.memory("b").fail.list = new CsiError("unavailable", "no route to host");
  const error = await failure(world.listing.volumes({ max: 0, token: "" }, call));
  expect(error?.code).toBe("unavailable");
  expect(error?.message).toContain('"b"');
  world.settings.listing = "partial";
  expect((await world.listing.volumes({ max: 0, token: "" }, call)).items.map(item => item.id)).toEqual(["v:a/v"]);
});

test("a connection that hangs fails the listing, and the next listing does not wait for it", async () => {
  const world = muxWorld(["a", "b"]);
  world.memory("a").volumes.set("v", volume("v"));
  const hung = Promise.withResolvers<void>();
  world.memory("b").look = hung.promise;
  for (const _ of [1, 2]) {
    const error = await failure(world.listing.volumes({ max: 0, token: "" }, call));
    expect(error?.code).toBe("unavailable");
    expect(error?.message).toContain('"b"');
  }
  world.settings.listing = "partial";
  expect((await world.listing.volumes({ max: 0, token: "" }, call)).items.map(item => item.id)).toEqual(["v:a/v"]);
  hung.resolve();
  await hung.promise;
  await Bun.sleep(0);
  world.settings.listing = "complete";
  expect((await world.listing.volumes({ max: 0, token: "" }, call)).items.map(item => item.id)).toEqual(["v:a/v"]);
});

test.each(["invalid-token", "../x/y", "/", "a b/c"])("the token %p is ABORTED", async token => {
  expect(await codeOf(muxWorld(["a"]).listing.volumes({ max: 0, token }, call))).toBe("aborted");
});

test("a listing continues after a connection that was removed between two pages", async () => {
  const world = muxWorld(["a", "b", "c"]);
  for (const name of ["a", "b", "c"]) for (const id of ["1", "2"]) world.memory(name).volumes.set(id, volume(id));
  const first = await world.listing.volumes({ max: 3, token: "" }, call);
  expect(first.items.map(item => item.id)).toEqual(["v:a/1", "v:a/2", "v:b/1"]);
  world.up.delete("b");
  const rest = await world.listing.volumes({ max: 0, token: first.next ?? "" }, call);
  expect(rest.items.map(item => item.id)).toEqual(["v:c/1", "v:c/2"]);
});

test("a filter uses only its own connection, and unknown ids list nothing", async () => {
  const world = muxWorld(["a", "b"]);
  world.memory("b").fail.list = new CsiError("unavailable", "down");
  world.memory("a").volumes.set("v", volume("v"));
  await world.snapshots.create(snapshotOf("s1", "v:a/v"), call);
  await world.snapshots.create(snapshotOf("s2", "v:a/v"), call);
  const list = async (snapshot: string, of: string) =>
    (await world.listing.snapshots({ max: 0, token: "" }, { snapshot, volume: of }, call)).items.map(item => item.id);
  expect(await list("s:a/s1", "")).toEqual(["s:a/s1"]);
  expect(await list("", "v:a/v")).toEqual(["s:a/s1", "s:a/s2"]);
  expect(await list("s:a/s1", "v:a/other")).toEqual([]);
  expect(await list("none-exist-id", "")).toEqual([]);
  expect(await list("s:a/none", "")).toEqual([]);
  expect(await list("", "fake-vol-id")).toEqual([]);
  const page = await world.listing.snapshots({ max: 1, token: "" }, { snapshot: "", volume: "v:a/v" }, call);
  const next = await world.listing.snapshots(
    { max: 1, token: page.next ?? "" },
    { snapshot: "", volume: "v:a/v" },
    call,
  );
  expect([page, next].flatMap(each => each.items.map(item => item.id))).toEqual(["s:a/s1", "s:a/s2"]);
});

test("a token of one listing is ABORTED in every other one", async () => {
  const { listing, memory, snapshots } = muxWorld(["a"]);
  for (const id of ["v", "w"]) memory("a").volumes.set(id, volume(id));
  for (const name of ["s1", "s2"]) await snapshots.create(snapshotOf(name, "v:a/v"), call);
  for (const name of ["s3", "s4"]) await snapshots.create(snapshotOf(name, "v:a/w"), call);
  const of = (snapshot: string, source: string) => (max: number, token: string) =>
    listing.snapshots({ max, token }, { snapshot, volume: source }, call);
  const volumes = (max: number, token: string) => listing.volumes({ max, token }, call);
  const paged = [volumes, of("", ""), of("", "v:a/v"), of("", "v:a/w")];
  const unpaged = [of("s:a/s1", ""), of("none-exist-id", ""), of("", "fake-vol-id")];
  for (const listed of paged) {
    const { next } = await listed(1, "");
    expect((await listed(0, next ?? "")).items.length).toBeGreaterThan(0);
    for (const other of [...paged, ...unpaged].filter(each => each !== listed))
      expect(await codeOf(other(0, next ?? ""))).toBe("aborted");
  }
});

test("an answer never has more entries than fit a gRPC message, however many are requested", async () => {
  const world = muxWorld(["a"]);
  for (let i = 0; i < 1000; i++) world.memory("a").volumes.set(`v${i}`, volume(`v${i}`));
  const first = await world.listing.volumes({ max: 5000, token: "" }, call);
  expect(first.items).toHaveLength(800);
  const rest = await world.listing.volumes({ max: 5000, token: first.next ?? "" }, call);
  expect(new Set([...first.items, ...rest.items].map(item => item.id)).size).toBe(1000);
});

test("a snapshot is found by both filters if its volume is named without a prefix", async () => {
  const world = muxWorld(["old"]);
  world.settings.legacyConnection = "old";
  world.memory("old").volumes.set("pvc-1", volume("pvc-1"));
  await world.snapshots.create(snapshotOf("s", "pvc-1"), call);
  const found = (of: string) => world.listing.snapshots({ max: 0, token: "" }, { snapshot: "s", volume: of }, call);
  expect((await found("pvc-1")).items.map(item => item.id)).toEqual(["s:old/s"]);
  expect((await found("v:old/pvc-1")).items).toHaveLength(1);
  expect((await found("pvc-2")).items).toEqual([]);
});

test("a listing omits connections whose file was never valid or was removed", async () => {
  const world = muxWorld(["a", "b", "c"]);
  for (const name of ["a", "b", "c"]) world.memory(name).volumes.set("v", volume("v"));
  world.broken.add("b");
  const list = async () => (await world.listing.volumes({ max: 0, token: "" }, call)).items.map(item => item.id);
  expect(await list()).toEqual(["v:a/v", "v:c/v"]);
  expect(await codeOf(world.volumes.get("v:b/v", call))).toBe("unavailable");
  world.up.delete("c");
  expect(await list()).toEqual(["v:a/v"]);
  world.broken.delete("b");
  expect(await list()).toEqual(["v:a/v", "v:b/v"]);
  // The last valid version is still in use.
  world.broken.add("b");
  expect(await list()).toEqual(["v:a/v", "v:b/v"]);
});

test("equal listings at the same time are joined, others are not", async () => {
  const world = muxWorld(["a"]);
  world.memory("a").volumes.set("v", volume("v"));
  const slow = Promise.withResolvers<void>();
  world.memory("a").look = slow.promise;
  const list = (max: number) => world.listing.volumes({ max, token: "" }, call);
  const running = [...Array.from({ length: 200 }, () => list(0)), list(5)];
  // The calls begin, and then wait for the storage.
  await passing(1);
  expect(world.memory("a").asked).toBe(2);
  slow.resolve();
  for (const page of await Promise.all(running)) expect(page.items).toHaveLength(1);
  await list(0);
  expect(world.memory("a").asked).toBe(3);
});

test("connections that hang delay a listing once, wherever they are among a thousand others", async () => {
  const names = Array.from({ length: 1000 }, (_, index) => `c${String(index).padStart(3, "0")}`);
  // Long in comparison with the work of a thousand connections on a busy machine.
  const limit = 1_500;
  const world = muxWorld(names, { look: limit, capacity: limit });
  world.settings.listing = "partial";
  const hung = names.filter((_, index) => index % 250 === 17);
  for (const name of names) world.memory(name).volumes.set("v", volume("v"));
  for (const name of hung) world.memory(name).look = new Promise(() => undefined);
  const from = performance.now();
  const first = await world.listing.volumes({ max: 0, token: "" }, call);
  const rest = await world.listing.volumes({ max: 0, token: first.next ?? "" }, call);
  expect(performance.now() - from).toBeLessThan(2 * limit);
  const listed = [...first.items, ...rest.items].map(item => item.id);
  expect(listed).toEqual(names.filter(name => !hung.includes(name)).map(name => `v:${name}/v`));
});

test("while a connection is slow, the listing does not collect the volumes of all others", async () => {
  const names = Array.from({ length: 200 }, (_, index) => `c${String(index).padStart(3, "0")}`);
  const world = muxWorld(names, { look: 60_000, capacity: 60_000 });
  for (const name of names) for (let n = 0; n < 10; n++) world.memory(name).volumes.set(`v${n}`, volume(`v${n}`));
  const slow = Promise.withResolvers<void>();
  world.memory("c000").look = slow.promise;
  const listing = world.listing.volumes({ max: 20, token: "" }, call);
  for (let tick = 0; tick < 5_000; tick++) await Promise.resolve();
  const asked = names.filter(name => world.memory(name).asked > 0).length;
  expect(asked).toBeGreaterThan(3);
  expect(asked).toBeLessThan(20);
  slow.resolve();
  const { items } = await listing;
  expect(items.map(item => item.id)).toEqual(
    ["c000", "c001"].flatMap(name => Array.from({ length: 10 }, (_, n) => `v:${name}/v${n}`)),
  );
});

test("the driver of a listing that timed out stays open until its call has ended", async () => {
  const world = muxWorld(["a"], { look: 20, capacity: 20 });
  const hung = Promise.withResolvers<void>();
  world.memory("a").look = hung.promise;
  expect(await codeOf(world.listing.volumes({ max: 0, token: "" }, call))).toBe("unavailable");
  expect(world.memory("a").closed).toBe(0);
  hung.resolve();
  await new Promise(resolve => setImmediate(resolve));
  expect(world.memory("a").closed).toBe(1);
});

test("a page asks each storage once, and only those that it shows and the next one", async () => {
  const names = Array.from({ length: 16 }, (_, index) => `c${String(index).padStart(2, "0")}`);
  const world = muxWorld(names, { look: 5_000, capacity: 5_000 });
  let asked = 0;
  for (const name of names) {
    const list = async ({ token, max }: PageRequest) => {
      asked++;
      await Bun.sleep(0);
      const from = Number(token ?? 0);
      const count = Math.min(max, 1_000 - from);
      const items = Array.from({ length: count }, (_, index) => volume(`v${from + index}`));
      return { items, next: from + count < 1_000 ? String(from + count) : undefined };
    };
    world.traits.set(name, { driver: { ...world.memory(name).driver(), inventory: { list } } });
  }
  const listed = async () => {
    const pages: number[] = [];
    asked = 0;
    for (let token: string | undefined = ""; token !== undefined; ) {
      const page = await world.listing.volumes({ max: 0, token }, call);
      pages.push(page.items.length);
      token = page.next;
    }
    return { asked, pages };
  };
  const full = { pages: Array.from({ length: 20 }, () => 800) };
  const first = await listed();
  expect(first).toMatchObject(full);
  const second = await listed();
  expect(second).toMatchObject(full);
  // 16 storages and 20 pages: a storage on two pages is asked for each.
  expect(second.asked).toBeLessThanOrEqual(1.2 * 36);
  // Of the first page nothing is known.
  expect(first.asked).toBeLessThanOrEqual(1.2 * 36 + 16);
});

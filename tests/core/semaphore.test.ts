import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { mapLimit, Semaphore, semaphores } from "../../lib/core/semaphore.ts";

test("work whose call ends while it waits for a slot takes none and never starts", async () => {
  const slots = new Semaphore(1);
  const busy = Promise.withResolvers<void>();
  const first = slots.run(() => busy.promise);
  const call = new AbortController();
  let begun = false;
  const begin = async () => {
    begun = true;
  };
  const waiting = slots.run(begin, call.signal).catch((error: CsiError) => error.code);
  const next = slots.run(async () => "next", new AbortController().signal);
  call.abort();
  expect(await waiting).toBe("deadline-exceeded");
  expect(await slots.run(begin, call.signal).catch((error: CsiError) => error.code)).toBe("deadline-exceeded");
  busy.resolve();
  await first;
  expect(await next).toBe("next");
  expect(begun).toBe(false);
  expect(slots.idle).toBe(true);
});

test("the reason for which a call ended is passed on", async () => {
  const reason = new CsiError("unavailable", "csimux is stopping");
  const refused = new Semaphore(1).run(async () => {}, AbortSignal.abort(reason));
  expect(await refused.catch((error: unknown) => error)).toBe(reason);
});

test("with one slot for each name work runs in order, and a cancelled wait delays no other", async () => {
  const turns = semaphores(1);
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = turns("a").run(async () => {
    await gate.promise;
    order.push("first");
  });
  const call = new AbortController();
  const reason = new CsiError("aborted", "given up");
  const given = turns("a")
    .run(async () => void order.push("never"), call.signal)
    .catch((error: Error) => order.push(error.message));
  const third = turns("a").run(async () => void order.push("third"));
  await turns("b").run(async () => void order.push("other"));
  call.abort(reason);
  await given;
  gate.resolve();
  await Promise.all([first, third]);
  expect(order).toEqual(["other", "given up", "first", "third"]);
});

test("work that fails releases its slot", async () => {
  const turns = semaphores(1);
  const failing = turns("a").run(() => Promise.reject(new Error("no")));
  expect(await failing.catch(String)).toBe("Error: no");
  expect(await turns("a").run(async () => "next")).toBe("next");
});

test("owners take turns, and only as many may release their slots early as the limit says", async () => {
  const slots = new Semaphore(1, 1);
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const work = (name: string, owner: string) =>
    slots.run(
      async leave => {
        order.push(`${name} ${leave()}`);
        await gate.promise;
      },
      undefined,
      owner,
    );
  const all = [work("a1", "a"), work("a2", "a"), work("a3", "a"), work("a4", "a"), work("b1", "b")];
  await Promise.resolve();
  expect([order, slots.idle]).toEqual([["a1 true", "a2 false"], false]);
  gate.resolve();
  await Promise.all(all);
  expect(order.map(line => line.slice(0, 2))).toEqual(["a1", "a2", "a3", "b1", "a4"]);
  expect(slots.idle).toBe(true);
});

const numbers = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

test("mapLimit keeps the order of the items and runs no more than its limit at once", async () => {
  let running = 0;
  let most = 0;
  const work = async (item: number) => {
    most = Math.max(most, ++running);
    for (let ticks = 0; ticks < (item * 7) % 11; ticks++) await Promise.resolve();
    running--;
    return item * 2;
  };
  for (const limit of [1, 3, 8]) {
    most = 0;
    expect(await mapLimit(numbers(40), limit, work)).toEqual(numbers(40).map(item => item * 2));
    expect(most).toBe(limit);
  }
  expect(await mapLimit([], 4, work)).toEqual([]);
});

test("an item that never ends delays no other item", async () => {
  const begun: number[] = [];
  void mapLimit(numbers(50), 4, item => {
    begun.push(item);
    return item % 20 === 0 ? new Promise<void>(() => undefined) : Promise.resolve();
  });
  await new Promise(resolve => setImmediate(resolve));
  expect(begun).toEqual([...numbers(50)]);
});

test("after a failure nothing more starts, and later failures are ignored", async () => {
  const begun: number[] = [];
  const gate = Promise.withResolvers<void>();
  const all = mapLimit(numbers(50), 4, async item => {
    begun.push(item);
    if (item !== 2) await gate.promise;
    throw new Error(`item ${item}`);
  });
  expect(await all.catch((error: Error) => error.message)).toBe("item 2");
  gate.resolve();
  await new Promise(resolve => setImmediate(resolve));
  expect(begun).toEqual([0, 1, 2, 3]);
});

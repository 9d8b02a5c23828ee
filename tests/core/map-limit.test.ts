import { expect, test } from "bun:test";
import { mapLimit } from "../../lib/core/map-limit.ts";

const numbers = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

test("results come in the order of the items, however long each takes, and never more than so many run", async () => {
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

test("work that never ends holds up nothing that others can do", async () => {
  const begun: number[] = [];
  void mapLimit(numbers(50), 4, item => {
    begun.push(item);
    return item % 20 === 0 ? new Promise<void>(() => undefined) : Promise.resolve();
  });
  await new Promise(resolve => setImmediate(resolve));
  expect(begun).toEqual([...numbers(50)]);
});

test("after a failure nothing more begins, and failures that follow are nobody's", async () => {
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

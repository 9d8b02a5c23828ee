import { expect, test } from "bun:test";
import { TakenNames } from "../../lib/drivers/taken-names.ts";

const { signal } = new AbortController();
const minute = 60_000;

/** Names of a pool as it is now, with a clock that is set by hand. */
function model(...there: string[]) {
  let now = 0;
  let listings = 0;
  const list = async () => {
    listings++;
    return there.map(name => [name, "theirs"] as const);
  };
  const names = new TakenNames(list, () => now);
  const at = (ms: number) => {
    now = ms;
  };
  return { names, there, at, listings: () => listings };
}

test("the names of a pool are listed once for many snapshots", async () => {
  const { names, listings } = model("old");
  for (let n = 0; n < 100; n++) expect(await names.take(`new-${n}`, "mine", signal)).toBeUndefined();
  expect(await names.take("old", "mine", signal)).toBe("theirs");
  expect(listings()).toBe(1);
});

test("a name that was taken once never counts as free, not even before the pool shows it", async () => {
  const { names, there, at, listings } = model();
  expect(await names.take("a", "mine", signal)).toBeUndefined();
  expect(await names.take("a", "mine", signal)).toBe("mine");
  at(16 * minute);
  expect(await names.take("a", "mine", signal)).toBe("mine");
  there.push("a");
  at(32 * minute);
  expect(await names.take("a", "mine", signal)).toBe("mine");
  expect(listings()).toBe(3);
});

test("names that other processes took are seen a quarter of an hour later, and deleted ones are forgotten", async () => {
  const { names, there, at } = model("gone");
  expect(await names.take("mine", "mine", signal)).toBeUndefined();
  there.splice(0, 1, "theirs");
  at(16 * minute);
  expect(await names.take("theirs", "mine", signal)).toBe("theirs");
  expect(await names.take("gone", "mine", signal)).toBeUndefined();
});

test("a listing that fails is reported, and the next call tries again", async () => {
  let fail = true;
  const names = new TakenNames(async () => {
    if (fail) throw new Error("the pool is away");
    return [["a", "mine"]];
  });
  await expect(names.take("a", "mine", signal)).rejects.toThrow("away");
  fail = false;
  expect(await names.take("a", "mine", signal)).toBe("mine");
});

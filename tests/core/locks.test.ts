import { expect, test } from "bun:test";
import { type HeldLocks, TryLocks } from "../../lib/core/locks.ts";

const refused = expect.objectContaining({ code: "aborted" });
const open = () => Promise.withResolvers<void>();

test("a key that is being written refuses writers and readers at once", async () => {
  const locks = new TryLocks();
  const gate = open();
  const first = locks.hold(["a"], () => gate.promise);
  await expect(locks.hold(["a"], async () => {})).rejects.toMatchObject({ code: "aborted" });
  expect(() => locks.lock(["b"], ["a"])).toThrow(refused);
  gate.resolve();
  await first;
  expect(await locks.hold(["a"], async () => 1)).toBe(1);
});

test("a key may be read by several at once, and written once the last reader has released it", async () => {
  const locks = new TryLocks();
  const [one, two] = [locks.lock([], ["s"]), locks.lock([], ["s"])];
  expect(() => locks.lock(["s"])).toThrow(refused);
  one[Symbol.dispose]();
  expect(() => locks.lock(["s"])).toThrow(refused);
  two[Symbol.dispose]();
  expect(await locks.hold(["s"], async () => 2)).toBe(2);
});

test("a refused call holds nothing, and a failed one releases its keys", async () => {
  const locks = new TryLocks();
  const gate = open();
  const first = locks.hold(["a"], () => gate.promise);
  await expect(locks.hold(["b", "a"], async () => {})).rejects.toThrow();
  expect(await locks.hold(["b"], async () => 3)).toBe(3);
  gate.reject(new Error("boom"));
  await expect(first).rejects.toThrow("boom");
  expect(await locks.hold(["a"], async () => 4)).toBe(4);
});

test("keys that are added later are held with the others, once, and released with them", async () => {
  const locks = new TryLocks();
  const add = (held: HeldLocks) => {
    held.add(["a", "b"], ["s", "b"]);
    held.add(["b"], ["a"]);
  };
  {
    using first = locks.lock(["a"]);
    add(first);
    expect(() => locks.lock([], ["b"])).toThrow(refused);
    expect(() => locks.lock(["b"])).toThrow(refused);
    expect(() => locks.lock(["s"])).toThrow(refused);
    locks.lock(["c"], ["s"])[Symbol.dispose]();
    using late = locks.lock(["d"]);
    expect(() => late.add(["e", "a"])).toThrow(refused);
    expect(await locks.hold(["e"], async () => 2)).toBe(2);
  }
  expect(await locks.hold(["a", "b", "d", "s"], async () => 3)).toBe(3);
});

import { expect, test } from "bun:test";
import { TryLocks } from "../../lib/core/locks.ts";

const open = () => Promise.withResolvers<void>();

test("a key that is being written refuses writers and readers at once", async () => {
  const locks = new TryLocks();
  const gate = open();
  const first = locks.hold(["a"], () => gate.promise);
  await expect(locks.hold(["a"], async () => {})).rejects.toMatchObject({ code: "aborted" });
  await expect(locks.hold(["b"], async () => {}, ["a"])).rejects.toMatchObject({ code: "aborted" });
  gate.resolve();
  await first;
  expect(await locks.hold(["a"], async () => 1)).toBe(1);
});

test("a key may be read by several at once, and written once the last reader has released it", async () => {
  const locks = new TryLocks();
  const [one, two] = [open(), open()];
  const readers = [locks.hold([], () => one.promise, ["s"]), locks.hold([], () => two.promise, ["s"])];
  await expect(locks.hold(["s"], async () => {})).rejects.toMatchObject({ code: "aborted" });
  one.resolve();
  await readers[0];
  await expect(locks.hold(["s"], async () => {})).rejects.toMatchObject({ code: "aborted" });
  two.resolve();
  await readers[1];
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

test("keys that are added while the work runs are held with the others, once, and released with them", async () => {
  const locks = new TryLocks();
  const gate = open();
  const first = locks.hold(["a"], async add => {
    add(["a", "b"], ["s", "b"]);
    add(["b"], ["a"]);
    await expect(locks.hold([], async () => {}, ["b"])).rejects.toMatchObject({ code: "aborted" });
    await gate.promise;
  });
  await expect(locks.hold(["b"], async () => {})).rejects.toMatchObject({ code: "aborted" });
  await expect(locks.hold(["s"], async () => {})).rejects.toMatchObject({ code: "aborted" });
  expect(await locks.hold(["c"], async () => 1, ["s"])).toBe(1);
  const late = locks.hold(["d"], async add => add(["e", "a"]));
  await expect(late).rejects.toMatchObject({ code: "aborted" });
  expect(await locks.hold(["d", "e"], async () => 2)).toBe(2);
  gate.resolve();
  await first;
  expect(await locks.hold(["a", "b", "s"], async () => 3)).toBe(3);
});

import { expect, test } from "bun:test";
import { SharedInstances } from "../../lib/io/lease.ts";
import { pause } from "../waiting.ts";

function counted() {
  const closed: string[] = [];
  let made = 0;
  const make = (name: string) => () => {
    made++;
    return { name, close: async () => void closed.push(name) };
  };
  return { make, closed, made: () => made };
}

async function until(holds: () => boolean): Promise<void> {
  const end = Date.now() + 20_000;
  while (!holds()) {
    if (Date.now() > end) throw new Error("not in time");
    await pause(1);
  }
}

test("a shared object is created once and closed some time after its last user has released it", async () => {
  const { make, closed, made } = counted();
  const sharing = new SharedInstances<{ name: string; close(): Promise<void> }>(5);
  const [one, two] = [sharing.lease("a", make("a")), sharing.lease("a", make("other"))];
  expect(two.value).toBe(one.value);
  await one.release();
  await one.release();
  expect(sharing.lease("a", make("x")).value).toBe(two.value);
  const other = sharing.lease("b", make("b"));
  await other.release();
  await until(() => closed.length > 0);
  expect([closed, made()]).toEqual([["b"], 2]);
  await sharing.close();
  expect(closed).toEqual(["b", "a"]);
});

test("a lease taken during the pause gets the same object, which stays open", async () => {
  const { make, closed } = counted();
  const sharing = new SharedInstances<{ name: string; close(): Promise<void> }>(20);
  const first = sharing.lease("a", make("a"));
  await first.release();
  const again = sharing.lease("a", make("new"));
  const other = sharing.lease("b", make("b"));
  await other.release();
  await until(() => closed.includes("b"));
  expect([again.value, closed]).toEqual([first.value, ["b"]]);
  await sharing.close();
});

import { expect, test } from "bun:test";
import { Semaphore } from "../../../lib/core/semaphore.ts";
import { sharedNext } from "../../../lib/io/shared-next.ts";

/** Syncs that end only when the test lets them, in the order in which they began. */
function held() {
  const begun: { readonly folder: string; readonly end: () => void; readonly fail: (error: Error) => void }[] = [];
  const sync = (folder: string) =>
    new Promise<void>((resolve, reject) => begun.push({ folder, end: resolve, fail: reject }));
  return { begun, shared: sharedNext(sync) };
}

const settled = () => new Promise<void>(resolve => setImmediate(resolve));

test("calls that come while a folder is being synced share the next sync, never the running one", async () => {
  const { begun, shared } = held();
  const done: string[] = [];
  const sync = (name: string) => shared("/a").then(() => done.push(name));
  const all = [sync("first")];
  await settled();
  all.push(sync("second"), sync("third"));
  await settled();
  expect(begun.length).toBe(1);
  begun[0]?.end();
  await settled();
  expect([begun.length, done]).toEqual([2, ["first"]]);
  all.push(sync("fourth"));
  begun[1]?.end();
  await settled();
  expect([begun.length, done]).toEqual([3, ["first", "second", "third"]]);
  begun[2]?.end();
  await Promise.all(all);
  expect(begun.length).toBe(3);
});

test("calls share a sync that still waits for its slot", async () => {
  const slots = new Semaphore(1);
  const other = Promise.withResolvers<void>();
  const busy = slots.run(() => other.promise);
  let syncs = 0;
  const shared = sharedNext(
    async () => {
      syncs++;
    },
    () => slots,
  );
  const all = [shared("/a")];
  await settled();
  all.push(shared("/a"));
  other.resolve();
  await Promise.all([busy, ...all]);
  expect(syncs).toBe(1);
});

test("folders do not wait for each other, and a failed sync fails only the calls that shared it", async () => {
  const { begun, shared } = held();
  const outcome = (folder: string) =>
    shared(folder).then(
      () => "ok",
      () => "failed",
    );
  const outcomes = ["/a", "/b"].map(outcome);
  await settled();
  outcomes.push(outcome("/a"));
  await settled();
  expect(begun.map(({ folder }) => folder)).toEqual(["/a", "/b"]);
  begun[0]?.fail(new Error("EIO"));
  begun[1]?.end();
  await settled();
  begun[2]?.end();
  expect(await Promise.all(outcomes)).toEqual(["failed", "ok", "ok"]);
});

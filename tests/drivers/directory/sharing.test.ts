import { expect, test } from "bun:test";
import { Semaphore } from "../../../lib/core/semaphore.ts";
import { filesOn } from "../../../lib/drivers/directory/by-server.ts";
import { localFiles } from "../../../lib/drivers/directory/own-files.ts";
import { withSharedSync } from "../../../lib/drivers/directory/shared-sync.ts";

/** Syncs that end only when the test lets them, in the order in which they began. */
function held() {
  const begun: { readonly folder: string; readonly end: () => void; readonly fail: (error: Error) => void }[] = [];
  const sync = (folder: string) =>
    new Promise<void>((resolve, reject) => begun.push({ folder, end: resolve, fail: reject }));
  return { begun, files: withSharedSync({ ...localFiles, sync }) };
}

const settled = () => new Promise<void>(resolve => setImmediate(resolve));

test("who comes while a folder is being synced shares the next sync, never the running one", async () => {
  const { begun, files } = held();
  const done: string[] = [];
  const sync = (name: string) => files.sync("/a").then(() => done.push(name));
  const all = [sync("first"), sync("second"), sync("third")];
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

test("folders do not wait for each other, and a failed sync fails only those who shared it", async () => {
  const { begun, files } = held();
  const outcomes = ["/a", "/b", "/a"].map(folder =>
    files.sync(folder).then(
      () => "ok",
      () => "failed",
    ),
  );
  expect(begun.map(({ folder }) => folder)).toEqual(["/a", "/b"]);
  begun[0]?.fail(new Error("EIO"));
  begun[1]?.end();
  await settled();
  begun[2]?.end();
  expect(await Promise.all(outcomes)).toEqual(["failed", "ok", "ok"]);
});

test("slots let so many work at once, in order, and a failure gives its slot back", async () => {
  const inTurn = new Semaphore(2);
  const ends: (() => void)[] = [];
  const started: number[] = [];
  const work = (n: number) =>
    inTurn
      .run(async () => {
        started.push(n);
        await new Promise<void>(resolve => ends.push(resolve));
        if (n === 0) throw new Error("failed");
      })
      .catch(() => undefined);
  const all = [0, 1, 2, 3].map(work);
  await settled();
  expect(started).toEqual([0, 1]);
  ends[0]?.();
  await settled();
  expect(started).toEqual([0, 1, 2]);
  for (let n = 1; n < 4; n++) {
    ends[n]?.();
    await settled();
  }
  await Promise.all(all);
  expect(started).toEqual([0, 1, 2, 3]);
});

test("connections to one server share its files, and servers that come and go are forgotten", () => {
  const first = filesOn("first.example");
  expect(filesOn("first.example")).toBe(first);
  for (let number = 0; number < 300; number++) filesOn(`nas-${number}.example`);
  expect(filesOn("first.example")).not.toBe(first);
});

import { expect, test } from "bun:test";
import type { Handle } from "../../lib/core/handle.ts";
import { SnapshotNames } from "../../lib/mux/snapshot-names.ts";

const on = (connection: string): Handle => ({ kind: "snapshot", connection, id: "x" });

test("a snapshot's name is known on the connection that has it last, and foreign to others only", () => {
  const names = new SnapshotNames();
  names.remember("snap", on("a"));
  expect([names.elsewhere("snap", "a"), names.elsewhere("other", "b")]).toEqual([undefined, undefined]);
  expect(names.elsewhere("snap", "b")).toEqual(on("a"));
  names.remember("snap", on("b"));
  expect([names.elsewhere("snap", "a"), names.elsewhere("snap", "b")]).toEqual([on("b"), undefined]);
});

test("ten thousand names are remembered; the one that was not used for longest goes first", () => {
  const names = new SnapshotNames();
  for (let i = 0; i < 10_000; i++) names.remember(`snap-${i}`, on("a"));
  names.remember("snap-0", on("a"));
  names.remember("one more", on("a"));
  expect(names.elsewhere("snap-0", "b")).toEqual(on("a"));
  expect(names.elsewhere("snap-1", "b")).toBeUndefined();
});

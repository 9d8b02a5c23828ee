import { describe, expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { codeOf, failure, request, snapshotOf } from "../mux/world.ts";
import { passing } from "../waiting.ts";
import { asked, copyRequest, until, untilSaid } from "./copy-world.ts";
import { call, commanded, complete, content, make, pair } from "./pair.ts";

describe("a running copy", () => {
  test("answers with its progress, and neither end can be changed meanwhile", async () => {
    const { hold, release, process, remains } = pair();
    hold();
    const one = process();
    const answer = await failure(make(one));
    expect(answer?.code).toBe("aborted");
    expect(answer?.message).toContain('volume "copy" is being copied from connection "a" (zfs-send)');
    for (const id of ["v:a/source", "v:b/copy"]) {
      expect(await codeOf(one.volumes.delete(id, call))).toBe("aborted");
      expect(await failure(one.volumes.delete(id, call))).toMatchObject({
        message: expect.stringContaining("is being copied"),
      });
    }
    release();
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    await until(() => remains().length === 0);
    await one.volumes.delete("v:a/source", call);
    await one.stop(1_000);
  });

  test("is seen with its bytes, and stands still while none arrive, unless it waits for its turn", async () => {
    const { hold, release, process } = pair();
    hold();
    const one = process({ times: { stalled: 1 } });
    const seen = () => one.overview(new Map()).copies;
    expect(await codeOf(make(one))).toBe("aborted");
    expect(await codeOf(make(one, "c"))).toBe("aborted");
    await until(() => seen()?.running[0]?.stalled === true && seen()?.running[1]?.ahead === 1);
    expect(seen()?.running).toMatchObject([
      { target: "v:b/copy", from: "a", to: "b", method: "zfs-send", ahead: undefined, done: 0 },
      { target: "v:c/copy", from: "a", to: "c", method: "zfs-send", ahead: 1, stalled: false },
    ]);
    expect(seen()?.copied).toEqual([]);
    release();
    await asked(() => make(one));
    await asked(() => make(one, "c"));
    expect(seen()).toEqual({
      running: [],
      copied: ["b", "c"].map(to => ({ from: "a", to, method: "zfs-send", bytes: content.length })),
    });
    await one.stop(1_000);
  });

  test("becomes the volume only when it is asked for", async () => {
    const { one, on } = await complete();
    expect(on("b").volumes.has("copy")).toBe(false);
    expect((await make(one)).id).toBe("v:b/copy");
    await one.stop(1_000);
  });

  test("pauses when it is not asked for, and continues with the next request", async () => {
    const { process, on, record } = pair();
    on("a").volumes.set("source", { content: "x".repeat(100_000), bytes: 1n << 20n });
    // A slow storage.
    on("b").gate = () => passing(1);
    const one = process({ settings: { idleMs: 80 } });
    expect(await codeOf(make(one))).toBe("aborted");
    const paused = await one.copies.running({ kind: "volume", connection: "b", id: "copy" })?.done;
    expect(paused).toMatchObject({ kind: "paused", why: { code: "aborted" } });
    expect(record()).toMatchObject({ state: "copying", holder: "" });
    on("b").gate = async () => {};
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    expect(on("b").volumes.get("copy")?.content).toHaveLength(100_000);
    await one.stop(1_000);
  });

  test("pauses also while another process gets its requests, which then continues it", async () => {
    const { process, on } = pair();
    on("a").volumes.set("source", { content: "x".repeat(100_000), bytes: 1n << 20n });
    // A slow storage.
    on("b").gate = () => passing(1);
    const [one, other] = [process({ settings: { idleMs: 80 } }), process()];
    expect(await codeOf(make(one))).toBe("aborted");
    const paused = one.copies.running({ kind: "volume", connection: "b", id: "copy" })?.done;
    const made = asked(() => make(other));
    expect(await paused).toMatchObject({ kind: "paused", why: { code: "aborted" } });
    on("b").gate = async () => {};
    expect((await made).id).toBe("v:b/copy");
    expect(on("b").volumes.get("copy")?.content).toHaveLength(100_000);
    await Promise.all([one.stop(1_000), other.stop(1_000)]);
  });

  test("waits for its turn behind another one of the same machine", async () => {
    const { hold, release, process } = pair();
    hold();
    const one = process();
    expect(await codeOf(make(one))).toBe("aborted");
    await untilSaid(() => make(one, "c"), "queued, 1 copy ahead");
    release();
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    expect((await asked(() => make(one, "c"))).id).toBe("v:c/copy");
    await one.stop(1_000);
  });

  test("reports how many of its machines are before it, and again when that changes", async () => {
    const { hold, release, process } = pair();
    hold();
    const one = process({ settings: { perMachine: 1, atOnce: 8 } });
    const ahead = () => one.overview(new Map()).copies?.running.map(each => each.ahead);
    for (const [to, name] of [
      ["b", "first"],
      ["c", "second"],
      ["b", "third"],
      ["c", "fourth"],
    ] as const)
      expect(await codeOf(make(one, to, name))).toBe("aborted");
    expect(ahead()).toEqual([undefined, 1, 2, 3]);
    await commanded(one, { command: "cancel", target: "v:c/second" });
    await until(() => ahead()?.length === 3);
    expect(ahead()).toEqual([undefined, 1, 2]);
    release();
    await until(() => ahead()?.length === 0);
    await one.stop(1_000);
  });

  test("gives others that wait a turn after a time with progress, and continues with what it has", async () => {
    const { process, on } = pair();
    on("a").volumes.set("large", { content: "y".repeat(100_000), bytes: 1n << 20n });
    let pieces = 0;
    on("b").gate = async () => {
      pieces++;
      // A slow storage.
      await passing(1);
    };
    const one = process({ times: { turn: 40 } });
    const large = () => one.volumes.create(copyRequest("copy", "b", "v:a/large"), call);
    expect(await codeOf(large())).toBe("aborted");
    await until(() => pieces > 60);
    expect((await asked(() => make(one, "c"), 10_000)).id).toBe("v:c/copy");
    expect(on("b").volumes.has("copy")).toBe(false);
    const before = on("b").targets.get("copy")?.content.length ?? 0;
    expect(before).toBeGreaterThan(0);
    on("b").gate = async () => {};
    expect((await asked(large)).id).toBe("v:b/copy");
    expect(on("b").volumes.get("copy")?.content).toBe("y".repeat(100_000));
    await one.stop(1_000);
  });

  test("is tried again after a failure, and says why meanwhile", async () => {
    const { process, on } = pair();
    const one = process({ times: { firstPause: 500, longestPause: 500 } });
    let left = 1;
    on("b").step = what => {
      if (what === "receive" && left-- > 0) throw new CsiError("unavailable", "the pool is full");
    };
    await untilSaid(() => make(one), "last attempt failed, retrying: the pool is full");
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    await one.stop(1_000);
  });

  test("ends with its data when no repetition can succeed, and says why", async () => {
    const { process, on, remains } = pair();
    const one = process();
    on("b").step = what => {
      if (what !== "receive" || (on("b").targets.get("copy")?.content ?? "") === "") return;
      throw new CsiError("invalid-argument", "the source has a path that cannot be copied");
    };
    const end = await failure(asked(() => make(one), 10_000));
    expect(end?.code).toBe("invalid-argument");
    expect(end?.message).toContain("the source has a path that cannot be copied");
    await until(() => remains().length === 0);
    await one.stop(1_000);
  });

  test("begins again when its snapshot was removed by hand, and ends when its source is gone", async () => {
    const { process, on, hold, reached, release, remains } = pair();
    hold();
    const one = process();
    expect(await codeOf(make(one))).toBe("aborted");
    await reached();
    await one.stop(1_000);
    on("a").held.clear();
    release();
    const two = process();
    expect((await asked(() => make(two))).id).toBe("v:b/copy");
    hold();
    expect(await codeOf(make(two, "c"))).toBe("aborted");
    await reached();
    await two.stop(1_000);
    on("a").held.clear();
    on("a").volumes.clear();
    release();
    const three = process();
    expect(await codeOf(asked(() => make(three, "c")))).toBe("not-found");
    await until(() => remains().length === 0);
    await three.stop(1_000);
  });
});

test("a snapshot that is being copied is not deleted", async () => {
  const { process, hold, release, on } = pair();
  hold();
  on("a").snapshots.set("snap", { content, bytes: 1n << 20n });
  const one = process();
  const ask = () => one.volumes.create(copyRequest("copy", "b", "s:a/snap"), call);
  expect(await codeOf(ask())).toBe("aborted");
  expect(await codeOf(one.snapshots.delete("s:a/snap", call))).toBe("aborted");
  release();
  expect((await asked(ask)).source).toEqual({ kind: "snapshot", id: "s:a/snap" });
  expect(await codeOf(one.snapshots.create(snapshotOf("x", "v:a/source"), call))).toBe("invalid-argument");
  expect(await codeOf(one.volumes.create(request("copy", "b"), call))).toBeUndefined();
  await one.stop(1_000);
});

test("no copy starts while csimux stops", async () => {
  const world = pair();
  const one = world.process();
  await one.copies.stop(1_000);
  expect(await failure(make(one))).toMatchObject({ code: "unavailable", message: "csimux is stopping; retry" });
  expect(world.on("b").targets.get("copy")?.content ?? "").toBe("");
  await one.stop(1_000);
});

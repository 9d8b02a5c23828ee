import { describe, expect, test } from "bun:test";
import type { CopyByStream } from "../../lib/copies/copy-work.ts";
import { CopyLease, seconds } from "../../lib/copies/lease.ts";
import { type CopyRecord, readRecord, writeRecord } from "../../lib/copies/record.ts";
import { CopyRemoval } from "../../lib/copies/removal.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { CopyTarget } from "../../lib/drivers/copying.ts";
import type { Driver } from "../../lib/drivers/driver.ts";
import { CopyStorage, copyDriver } from "../fakes/memory-copies.ts";
import { codeOf, failure } from "../mux/world.ts";
import { passing } from "../waiting.ts";
import { quick, until } from "./copy-world.ts";
import { call, commanded, make, pair } from "./pair.ts";

const target = { kind: "volume", connection: "b", id: "copy" } as const;

const record: CopyRecord = {
  ...{ origin: { kind: "volume", handle: "v:a/source" }, name: "copy", role: "create", method: "rsync", basic: false },
  ...{ required: 1n, limit: undefined, pass: 0, snapshotTime: 1, earlier: undefined, state: "copying", dirty: false },
  snapshot: {
    ...{ name: "m", proof: "", bytes: 1n, toSend: 0n, stable: true },
    traits: { encrypted: undefined, blockBytes: 0n, fixed: {} },
  },
  ...{ done: 0n, total: 0n, asked: 1, holder: "", heartbeat: 0, fault: "", move: undefined },
};

/** A storage with the record of a copy without a holder, and leases of it for several processes. */
function claims(times: Partial<typeof quick> = {}) {
  const storage = new CopyStorage();
  storage.records.set("copy", writeRecord(record));
  const { copyTarget } = copyDriver(storage, "b");
  if (!copyTarget) throw new Error("the storage takes content");
  const lost: string[] = [];
  const lease = (self: string, note: CopyTarget["note"] = copyTarget.note) => {
    const use = <T>(work: (ability: CopyTarget) => Promise<T>) => work({ ...copyTarget, note });
    const own = { ...quick, leaseTimeout: 10_000, ...times };
    return new CopyLease({ target: "v:b/copy", id: "copy", use }, record, self, own, call, () => void lost.push(self));
  };
  const holder = () => readRecord(storage.records.get("copy") ?? "", "test").holder;
  return { storage, copyTarget, lease, lost, holder };
}

describe("two processes that become the holder of one copy at the same time", () => {
  test("of which one writes late: it begins only after the other has noticed, and ended its programs", async () => {
    const { copyTarget, lease, lost, holder } = claims({ verifyDelay: 5, heartbeat: 150, slowClaimDelay: 400 });
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = lease("late", async (id, text, own) => {
      await promise;
      await copyTarget.note(id, text, own);
    });
    const claiming = late.claim({});
    const first = lease("first");
    await first.claim({});
    expect(holder()).toBe("first");
    resolve();
    await claiming;
    expect(holder()).toBe("late");
    expect(lost).toEqual(["first"]);
    await late.leave({}, call);
  });

  test("of which one was cancelled: a record that is removed right before it is written is asked for again, and not called missing", async () => {
    const { storage, copyTarget, lease, lost } = claims();
    const one = lease("one", async (id, text, own) => {
      storage.records.delete("copy");
      await copyTarget.note(id, text, own);
    });
    await expect(one.claim({})).rejects.toMatchObject({
      code: "aborted",
      message: expect.stringContaining("cancelled"),
    });
    expect(lost).toEqual(["one"]);
    expect(storage.records.size).toBe(0);
  });

  test("of which one gives it up: what it still writes takes effect before, and not on the next one's record", async () => {
    const { copyTarget, lease, holder } = claims({ heartbeat: 60_000 });
    const { promise, resolve } = Promise.withResolvers<void>();
    const late: boolean[] = [];
    const first = lease("first", async (...given) => {
      if (late.pop()) await promise;
      await copyTarget.note(...given);
    });
    await first.claim({});
    late.push(true);
    const writing = first.write({ dirty: true });
    await until(() => late.length === 0);
    const leaving = first.leave({}, call);
    // What it must not do would take no longer.
    await Promise.race([leaving, passing(50)]);
    expect(holder()).toBe("first");
    resolve();
    await Promise.all([writing, leaving]);
    expect(holder()).toBe("");
  });

  test("of which one was faster: the other one leaves its record alone", async () => {
    const { storage, lease, lost, holder } = claims();
    const slow = lease("slow");
    storage.records.set("copy", writeRecord({ ...record, holder: "other", heartbeat: 1 }));
    expect(await codeOf(slow.claim({}))).toBe("aborted");
    expect([holder(), lost]).toEqual(["other", ["slow"]]);
  });
});

test("a copy that another process has taken over meanwhile sends no second stream", async () => {
  const world = pair();
  let streams = 0;
  const stream = async () => {
    streams++;
    world.on("b").records.set("copy", writeRecord({ ...world.record(), holder: "another" }));
    throw new CsiError("unavailable", "the connection is lost");
  };
  const one = world.process({ stream, times: { heartbeat: 60_000, firstPause: 1 } });
  const asking = codeOf(make(one));
  await until(() => one.copies.running(target) !== undefined);
  expect(await one.copies.running(target)?.done).toMatchObject({ kind: "paused" });
  expect(await asking).toBe("aborted");
  expect([streams, world.record().holder]).toEqual([1, "another"]);
  await one.stop(1_000);
});

test("a copy that fails for good when another process has taken it over is not removed", async () => {
  const world = pair();
  const stream = async () => {
    world.on("b").records.set("copy", writeRecord({ ...world.record(), holder: "another" }));
    throw new CsiError("invalid-argument", "the source has a path that cannot be copied");
  };
  const one = world.process({ stream, times: { heartbeat: 60_000, answerWithin: 30_000 } });
  expect(await codeOf(make(one))).toBe("aborted");
  expect(world.record()).toMatchObject({ holder: "another", state: "copying" });
  expect(world.on("b").targets.has("copy")).toBe(true);
  await one.stop(1_000);
});

test.each([
  ["killed", "copying", true],
  ["killed", "ready", undefined],
  ["id.earlier", "copying", undefined],
  ["", "copying", undefined],
] as const)(
  "after the holder %j of a copy that is %s, its record says whether that may still write",
  async (holder, state, unfenced) => {
    const { storage, copyTarget } = claims();
    const before = { ...record, holder, state };
    storage.records.set("copy", writeRecord(before));
    const use = <T>(work: (ability: CopyTarget) => Promise<T>) => work(copyTarget);
    const own = new CopyLease({ target: "v:b/copy", id: "copy", use }, before, "id.own", quick, call, () => {});
    await own.claim({});
    await own.leave({}, call);
    expect(readRecord(storage.records.get("copy") ?? "", "test").unfenced).toBe(unfenced);
  },
);

test("a copy that lost its lease while its last bytes arrived is not reported as complete", async () => {
  const world = pair();
  const wanted = { source: "v:a/source", name: "copy", bytes: 1n << 20n, parameters: { connection: "b" } };
  const stream: CopyByStream = async (_, own) => {
    world.on("b").records.set("copy", writeRecord({ ...world.record(), holder: "another" }));
    await until(() => own.signal.aborted);
    return { basic: false };
  };
  const one = world.process({ stream });
  await commanded(one, { command: "begin", ...wanted, capabilities: [], mutable: {} });
  const answer = await failure(commanded(one, { command: "pass", target: "v:b/copy" }));
  expect(answer).toMatchObject({ code: "aborted", message: expect.stringContaining("another csimux") });
  expect(world.record()).toMatchObject({ holder: "another", state: "copying" });
  await one.stop(1_000);
});

test("a refusal does not give up the source of a copy that another process has begun meanwhile", async () => {
  const world = pair();
  world.hold();
  const one = world.process();
  const refused = new CsiError("resource-exhausted", "the copy needs 100 bytes, and 50 are available");
  let isBegun = false;
  const driver = (): Driver => {
    const whole = copyDriver(world.on("b"), "b");
    const { copyTarget } = whole;
    if (!copyTarget) return whole;
    const refusal: CopyTarget["refusal"] = async () => {
      expect(await codeOf(make(one))).toBe("aborted");
      isBegun = true;
      return refused;
    };
    return { ...whole, copyTarget: { ...copyTarget, refusal } };
  };
  const drivers = new Map([
    ["a", () => copyDriver(world.on("a"), "a")],
    ["b", driver],
  ]);
  const two = world.process({ drivers });
  expect([await codeOf(make(two)), isBegun]).toEqual(["aborted", true]);
  expect(world.on("a").held.size).toBe(1);
  world.release();
  await one.stop(1_000);
  await two.stop(1_000);
});

test("the hourly clean-up leaves a copy that was asked for after its listing", async () => {
  const world = pair();
  const old = seconds() - 73 * 3_600;
  world.on("b").records.set("copy", writeRecord({ ...record, asked: old }));
  const driver = (): Driver => {
    const whole = copyDriver(world.on("b"), "b");
    const { copyTarget } = whole;
    if (!copyTarget) return whole;
    const copies: CopyTarget["copies"] = async own => {
      const all = await copyTarget.copies(own);
      world.on("b").records.set("copy", writeRecord({ ...record, asked: seconds() }));
      return all;
    };
    return { ...whole, copyTarget: { ...copyTarget, copies } };
  };
  const one = world.process({ drivers: new Map([["b", driver]]) });
  await one.copies.cleanUp(call);
  expect(world.remains()).toEqual(["record copy"]);
  await one.stop(1_000);
});

describe("a connection that has lost its ability to copy", () => {
  const removal = (storage: CopyStorage, lost: "copySource" | "copyTarget") =>
    new CopyRemoval(async (_, work) => work({ ...copyDriver(storage, "b"), [lost]: undefined }));

  test("is not reported to have removed a target", async () => {
    const storage = new CopyStorage();
    storage.records.set("copy", "text");
    expect(await codeOf(removal(storage, "copyTarget").remove(target, record, call))).toBe("unavailable");
  });

  test("keeps the record from which its protected snapshots are found again", async () => {
    const storage = new CopyStorage();
    storage.records.set("copy", "text");
    await removal(storage, "copySource").forgetFinished(target, record, call);
    expect(storage.remains()).toEqual(["record copy"]);
  });
});

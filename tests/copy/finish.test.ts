import { describe, expect, test } from "bun:test";
import { type CopyRecord, writeRecord } from "../../lib/copies/record.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { CopyTarget } from "../../lib/drivers/copying.ts";
import type { Driver } from "../../lib/drivers/driver.ts";
import { copyDriver } from "../fakes/memory-copies.ts";
import { codeOf, failure } from "../mux/world.ts";
import { passing } from "../waiting.ts";
import { asked, type CopyWorldParts, until } from "./copy-world.ts";
import { call, commanded, complete, content, make, pair } from "./pair.ts";

type Change = (whole: CopyTarget) => Partial<CopyTarget>;

/** A pair whose processes meet at steps of the target. */
function meeting(world = pair()) {
  const open = (change: Change, more: Partial<CopyWorldParts> = {}) =>
    world.changed("b", (_, whole) => ({ copyTarget: { ...whole, ...change(whole) } }), more);
  return { ...world, open };
}

/** A `finish` that waits until `go`, and is aborted like a driver's. */
function held() {
  const reached = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  let running = 0;
  let most = 0;
  const change: Change = whole => ({
    finish: async (id, spec, snapshot, stillHeld, own) => {
      most = Math.max(most, ++running);
      reached.resolve();
      try {
        const ended = new Promise<never>((_, reject) =>
          own.signal.addEventListener("abort", () => reject(own.signal.reason), { once: true }),
        );
        await Promise.race([go.promise, ended]);
        return await whole.finish(id, spec, snapshot, stillHeld, own);
      } finally {
        running--;
      }
    },
  });
  return { change, reached: reached.promise, go: () => go.resolve(), most: () => most };
}

/** A pair with a claim's copy that is complete, and has no holder. */
async function met(more: Partial<CopyWorldParts> = {}) {
  const { one, ...world } = await complete(more);
  await one.stop(1_000);
  return meeting(world);
}

const target = "v:b/copy";
const finish = { command: "finish", target } as const;
const freeze = { command: "freeze", volume: "v:a/source" } as const;

/** A pair with a move whose first pass is complete. */
async function moved() {
  const world = meeting();
  const one = world.process();
  const wanted = { source: "v:a/source", name: "copy", bytes: 1n << 20n, parameters: { connection: "b" } };
  await commanded(one, { command: "begin", ...wanted, capabilities: [], mutable: {} });
  await commanded(one, { command: "pass", target });
  await one.stop(1_000);
  return world;
}

describe("of two processes that make a target the volume", () => {
  test("and have read its record before either of them wrote, only one does it at a time", async () => {
    const { open, on } = await met();
    const { change, reached, go, most } = held();
    const times = { heartbeat: 10, verifyDelay: 5, slowClaimDelay: 200 };
    const one = open(change, { times });
    let isLate = false;
    const late: Change = whole => ({
      ...change(whole),
      note: async (id, text, own) => {
        if (!isLate) await reached;
        isLate = true;
        await whole.note(id, text, own);
      },
    });
    const two = open(late, { times });
    const both = [one, two].map(each => make(each).catch(() => undefined));
    await reached;
    await until(() => isLate);
    // Longer than the one that wrote last waits for the other.
    await passing(400);
    go();
    await Promise.all(both);
    expect(most()).toBe(1);
    expect((await asked(() => make(one))).id).toBe(target);
    expect(on("b").volumes.get("copy")?.content).toBe(content);
    for (const each of [one, two]) await each.stop(1_000);
  });

  test("one that takes long keeps its lease, so that the other neither continues nor removes it", async () => {
    const { open, process, on } = await met();
    const { change, reached, go, most } = held();
    const one = open(change, { times: { heartbeat: 10 } });
    const making = make(one);
    await reached;
    const two = process({ times: { takeoverAfter: 60 } });
    expect(await codeOf(two.volumes.delete(target, call))).toBe("aborted");
    // More than the 60 ms after which a lease without heartbeats expires.
    await passing(150);
    expect([await codeOf(make(two)), most()]).toEqual(["aborted", 1]);
    go();
    expect((await making).id).toBe(target);
    expect(on("b").volumes.get("copy")?.content).toBe(content);
    for (const each of [one, two]) await each.stop(1_000);
  });

  test("one that was suspended and wakes up after the copy was cancelled does not make it the volume", async () => {
    const { open, process, on, remains } = await met();
    const { change, reached, go } = held();
    // A suspended process writes no heartbeats, and sees no time pass.
    const one = open(change, { times: { heartbeat: 60_000, leaseTimeout: 60_000 } });
    const making = codeOf(make(one));
    await reached;
    const two = process();
    const cancelling = commanded(two, { command: "cancel", target });
    await until(() => on("b").cancelled.has("copy"));
    go();
    expect(await making).toBe("aborted");
    await cancelling;
    expect(await codeOf(make(two))).toBe("failed-precondition");
    expect([on("b").volumes.has("copy"), remains()]).toEqual([false, []]);
    for (const each of [one, two]) await each.stop(1_000);
  });
});

describe("a source that is stopped while its move becomes the volume", () => {
  test("before that is written into the record: the pass from before is not the volume", async () => {
    const { open, process, record, on } = await moved();
    const other = process();
    let finds = 0;
    const one = open(whole => ({
      find: async (id, own) => {
        const found = await whole.find(id, own);
        if (++finds === 1) await commanded(other, freeze);
        return found;
      },
    }));
    expect(await codeOf(commanded(one, finish))).toBe("aborted");
    expect(record()).toMatchObject({ state: "ready", frozen: 1 });
    expect(await codeOf(commanded(one, finish))).toBe("failed-precondition");
    expect(on("b").volumes.has("copy")).toBe(false);
    for (const each of [one, other]) await each.stop(1_000);
  });

  test.each(["the same", "another"])("in %s process: that is not noted, and said", async where => {
    const { open, process, record } = await moved();
    const { change, reached, go } = held();
    const one = open(change);
    const other = where === "another" ? process() : one;
    const finishing = commanded(one, finish);
    await reached;
    const why = where === "another" ? "by another csimux" : "another request is changing";
    expect(await failure(commanded(other, freeze))).toMatchObject({
      code: "aborted",
      message: expect.stringContaining(why),
    });
    expect(record().frozen).toBeUndefined();
    go();
    expect(await finishing).toMatchObject([{ kind: "done", volume: { handle: target } }]);
    for (const each of [one, other]) await each.stop(1_000);
  });
});

describe("a source whose storage can set it to read-only", () => {
  const stopping = async (set: (world: Awaited<ReturnType<typeof moved>>) => Promise<void>) => {
    const world = await moved();
    const source = (): Driver => {
      const whole = copyDriver(world.on("a"), "a");
      const { copySource } = whole;
      return copySource ? { ...whole, copySource: { ...copySource, freeze: () => set(world) } } : whole;
    };
    const drivers = new Map([
      ["a", source],
      ["b", () => copyDriver(world.on("b"), "b")],
    ]);
    return { ...world, one: world.process({ drivers }) };
  };

  test("is stopped when its record says so already, so that a process that ends in between leaves nothing to finish", async () => {
    let left = "";
    const { one, on, record } = await stopping(async world => {
      left = world.on("b").records.get("copy") ?? "";
    });
    await commanded(one, freeze);
    expect(record()).toMatchObject({ holder: "", state: "ready", frozen: 1 });
    on("b").records.set("copy", left);
    expect(await failure(asked(() => commanded(one, finish)))).toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining("run csimux copies freeze again"),
    });
    await commanded(one, freeze);
    expect(record()).toMatchObject({ holder: "", frozen: 1 });
    await one.stop(1_000);
  });

  test("and refuses that can be finished as before", async () => {
    const { one, record } = await stopping(async () => {
      throw new CsiError("failed-precondition", "the account may not set readonly");
    });
    expect(await codeOf(commanded(one, freeze))).toBe("failed-precondition");
    expect(record()).toMatchObject({ holder: "", state: "ready" });
    expect(record().frozen).toBeUndefined();
    expect(await commanded(one, finish)).toMatchObject([{ kind: "done", volume: { handle: target } }]);
    await one.stop(1_000);
  });
});

test("a copy that another process begins under the name, when this one would finish the one before it, stays", async () => {
  const { open, on, record } = await met();
  let isBegun = false;
  const one = open(whole => ({
    note: async (id, text, own) => {
      await whole.note(id, text, own);
      if (isBegun) return;
      isBegun = true;
      // Deleted, and begun again: nothing has arrived yet.
      on("b").targets.delete("copy");
      on("b").records.set("copy", writeRecord({ ...record(), state: "copying", holder: "", heartbeat: 0 }));
    },
  }));
  expect(await codeOf(make(one))).toBe("aborted");
  expect(record()).toMatchObject({ state: "copying", holder: "" });
  await one.stop(1_000);
});

test("a process that has read the record of an earlier copy of the name does not take a later one for it", async () => {
  // Both copies raise the heartbeat equally often.
  const more = { times: { heartbeat: 60_000, leaseTimeout: 60_000 } };
  const { open, process, record, hold, reached, release } = await met(more);
  let paused: CopyRecord | undefined;
  const again = async () => {
    const two = process(more);
    await two.volumes.delete(target, call);
    hold();
    expect(await codeOf(make(two))).toBe("aborted");
    await reached();
    const stopping = two.stop(1_000);
    release();
    await stopping;
    paused = record();
  };
  let isLooked = false;
  const one = open(whole => ({
    existing: async (...given) => {
      isLooked = true;
      return whole.existing(...given);
    },
    find: async (...given) => {
      const found = await whole.find(...given);
      if (isLooked && !paused) await again();
      return found;
    },
  }));
  expect(await codeOf(make(one))).toBe("aborted");
  expect(paused).toMatchObject({ state: "copying", holder: "" });
  expect<CopyRecord | undefined>(record()).toEqual(paused);
  await one.stop(1_000);
});

test("a failure is not final because the storage does not say what is left", async () => {
  const { open, record } = await met();
  const refuse = async () => {
    throw new CsiError("failed-precondition", "the target is not readable");
  };
  const one = open(() => ({ hasContent: refuse }));
  expect(await failure(make(one))).toMatchObject({ code: "unavailable", message: "the target is not readable" });
  expect(record()).toMatchObject({ state: "ready", holder: "" });
  await one.stop(1_000);
});

test("a record that another process has written after a volume was complete does not take its answer away", async () => {
  const { open, on, record } = await met();
  const one = open(whole => ({
    finish: async (...given) => {
      const volume = await whole.finish(...given);
      on("b").records.set("copy", writeRecord({ ...record(), holder: "another" }));
      return volume;
    },
  }));
  expect((await make(one)).id).toBe(target);
  await until(() => !on("b").records.has("copy"));
  await one.stop(1_000);
});

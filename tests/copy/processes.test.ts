import { describe, expect, test } from "bun:test";
import { type CopyRecord, writeRecord } from "../../lib/copies/record.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { CopyTarget } from "../../lib/drivers/copying.ts";
import type { Driver } from "../../lib/drivers/driver.ts";
import { copyDriver } from "../fakes/memory-copies.ts";
import { codeOf, failure } from "../mux/world.ts";
import { passing } from "../waiting.ts";
import { asked, until } from "./copy-world.ts";
import { call, commanded, complete, content, make, pair } from "./pair.ts";

describe("two processes", () => {
  test("of which one copies: the other says so, and takes over when the first has ended without a word", async () => {
    const { process, hold, reached, release, record, on } = pair();
    hold();
    const one = process({ times: { heartbeat: 10 } });
    expect(await codeOf(make(one))).toBe("aborted");
    await reached();
    const two = process({ times: { takeoverAfter: 200 } });
    for (const _ of [1, 2, 3]) expect((await failure(make(two)))?.message).toContain("another csimux");
    // A process that was killed leaves its name in the record.
    const stopping = one.stop(1_000);
    release();
    await stopping;
    on("b").records.set("copy", writeRecord({ ...record(), holder: "killed" }));
    const began = performance.now();
    expect((await asked(() => make(two))).id).toBe("v:b/copy");
    expect(performance.now() - began).toBeGreaterThan(150);
    await two.stop(1_000);
  });

  test("of which one was killed: the one that has its locked id continues the copy at once, and no other one does", async () => {
    const { hold, release, reached, process, record, on } = pair();
    hold();
    const killed = process({ lockedId: "id", times: { heartbeat: 1_000_000 } });
    expect(await codeOf(make(killed))).toBe("aborted");
    await reached();
    expect(record().holder).toStartWith("id.");
    const later = { takeoverAfter: 1_000_000 };
    const others = [undefined, "other", "i"].map(lockedId => process({ ...(lockedId && { lockedId }), times: later }));
    for (const other of others) expect((await failure(make(other)))?.message).toContain("another csimux");
    const next = process({ lockedId: "id", times: later });
    release();
    expect((await asked(() => make(next), 10_000)).id).toBe("v:b/copy");
    expect(on("b").volumes.get("copy")?.content).toBe(content);
    for (const each of [killed, ...others, next]) await each.stop(1_000);
  });

  test("the one that loses the record ends its copy", async () => {
    const { process, hold, reached, release, record, on } = pair();
    hold();
    const one = process({ times: { heartbeat: 10 } });
    expect(await codeOf(make(one))).toBe("aborted");
    await reached();
    on("b").records.set("copy", writeRecord({ ...record(), holder: "another" }));
    const target = { kind: "volume", connection: "b", id: "copy" } as const;
    const running = one.copies.running(target);
    // The owner reads its record every 10 ms.
    await passing(50);
    release();
    expect(await running?.done).toMatchObject({ kind: "paused" });
    expect(record().holder).toBe("another");
    await one.stop(1_000);
  });

  test("a copy that is cancelled through the other process is removed by its own, which refuses the next request for it once", async () => {
    const { process, hold, reached, release, on, remains } = pair();
    hold();
    const one = process();
    expect(await codeOf(make(one))).toBe("aborted");
    await reached();
    const two = process({ times: { takeoverAfter: 60_000 } });
    const cancelling = commanded(two, { command: "cancel", target: "v:b/copy" });
    await until(() => on("b").cancelled.has("copy"));
    release();
    expect(await cancelling).toMatchObject([{ kind: "done", target: "v:b/copy" }]);
    expect(remains()).toEqual(["record copy"]);
    expect(await codeOf(make(one))).toBe("failed-precondition");
    expect(remains()).toEqual([]);
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    await one.stop(1_000);
    await two.stop(1_000);
  });

  test.each(["after", "before"])(
    "a cancellation wins against another process that becomes the owner at the same time, whose note comes %s the canceller has looked",
    async when => {
      const { process, hold, reached, release, record, on, remains } = pair();
      hold();
      const first = process();
      expect(await codeOf(make(first))).toBe("aborted");
      await reached();
      const stopping = first.stop(1_000);
      release();
      await stopping;
      expect(record()).toMatchObject({ state: "copying", holder: "" });
      const noting = Promise.withResolvers<void>();
      const cancelled = Promise.withResolvers<void>();
      const driver = (name: string) => (): Driver => {
        const whole = copyDriver(on(name), name);
        if (name !== "b" || !whole.copyTarget) return whole;
        const note: CopyTarget["note"] = async (id, text, own) => {
          noting.resolve();
          await cancelled.promise;
          await whole.copyTarget?.note(id, text, own);
        };
        return { ...whole, copyTarget: { ...whole.copyTarget, note } };
      };
      const claiming = process({ drivers: new Map(["a", "b", "c"].map(name => [name, driver(name)])) });
      expect(await codeOf(make(claiming))).toBe("aborted");
      await noting.promise;
      const two = process({ times: { takeoverAfter: 60_000 } });
      on("b").step = what => {
        if (when === "before" && (what === "noted" || what === "cancelled")) cancelled.resolve();
      };
      const cancelling = commanded(two, { command: "cancel", target: "v:b/copy" });
      if (when === "after") await cancelling.finally(() => cancelled.resolve());
      expect(await cancelling).toMatchObject([{ kind: "done", target: "v:b/copy" }]);
      await until(() => claiming.copies.view().running.length === 0);
      expect([record().state, remains()]).toEqual(["cancelled", ["record copy"]]);
      expect(await codeOf(make(two))).toBe("failed-precondition");
      expect([remains(), on("b").volumes.has("copy")]).toEqual([[], false]);
      expect((await asked(() => make(two))).id).toBe("v:b/copy");
      for (const each of [claiming, two]) await each.stop(1_000);
    },
  );

  test("a cancellation that comes when a request makes the volume already is too late, and says so", async () => {
    const { one, record, on } = await complete();
    // What a request in another process writes: first that it is the holder, then that it has the volume.
    const write = (change: Partial<CopyRecord>) =>
      on("b").records.set("copy", writeRecord({ ...record(), heartbeat: record().heartbeat + 1, ...change }));
    write({ holder: "another" });
    const cancelling = codeOf(commanded(one, { command: "cancel", target: "v:b/copy" }));
    await until(() => on("b").cancelled.has("copy"));
    on("b").volumes.set("copy", { content, bytes: 1n << 20n });
    on("b").targets.delete("copy");
    write({ state: "finished", holder: "" });
    expect(await cancelling).toBe("failed-precondition");
    expect(on("b").volumes.has("copy")).toBe(true);
    await one.stop(1_000);
  });

  test("a cancellation that comes before a request makes the volume wins", async () => {
    const { one, process, record, on } = await complete();
    let finds = 0;
    const driver = (name: string) => (): Driver => {
      const whole = copyDriver(on(name), name);
      if (name !== "b" || !whole.copyTarget) return whole;
      const find: CopyTarget["find"] = async (id, own) => {
        const found = await whole.copyTarget?.find(id, own);
        // After the request has read it once.
        if (++finds === 1) on("b").records.set("copy", writeRecord({ ...record(), state: "cancelled" }));
        return found;
      };
      return { ...whole, copyTarget: { ...whole.copyTarget, find } };
    };
    const two = process({ drivers: new Map(["a", "b", "c"].map(name => [name, driver(name)])) });
    expect(await codeOf(asked(() => make(two)))).toBe("failed-precondition");
    expect([...on("b").volumes.keys(), ...on("b").targets.keys()]).toEqual([]);
    await Promise.all([one.stop(1_000), two.stop(1_000)]);
  });

  test("a cancellation is marked although the copy of its own process does not end, and ends with its client", async () => {
    const { process, hold, reached, release, on, remains } = pair();
    hold();
    const one = process();
    expect(await codeOf(make(one))).toBe("aborted");
    await reached();
    const client = new AbortController();
    const command = { command: "cancel", target: "v:b/copy" } as const;
    const cancelling = codeOf(one.copies.command(command, () => {}, client.signal, call));
    await until(() => on("b").cancelled.has("copy"), 2_000);
    client.abort(new CsiError("deadline-exceeded", "the client has gone"));
    expect(await cancelling).toBe("deadline-exceeded");
    expect(on("b").targets.has("copy")).toBe(true);
    // Its own process removes it when its program has ended.
    release();
    await until(() => one.copies.view().running.length === 0);
    expect(remains()).toEqual(["record copy"]);
    await one.stop(1_000);
  });

  test("the copy of a process that was killed is cancelled when that has not written for some time", async () => {
    const { process, hold, reached, release, record, on, remains } = pair();
    hold();
    const one = process();
    expect(await codeOf(make(one))).toBe("aborted");
    await reached();
    const stopping = one.stop(1_000);
    release();
    await stopping;
    on("b").records.set("copy", writeRecord({ ...record(), holder: "killed" }));
    const two = process();
    expect(await commanded(two, { command: "cancel", target: "v:b/copy" })).toMatchObject([{ kind: "done" }]);
    expect(remains()).toEqual(["record copy"]);
    await two.stop(1_000);
  });

  test("a request does not remove a cancelled copy while another process still writes it, and does when that has ended without a word", async () => {
    const { process, hold, reached, release, record, on, remains } = pair();
    hold();
    const one = process({ times: { heartbeat: 60_000 } });
    expect(await codeOf(make(one))).toBe("aborted");
    await reached();
    on("b").cancelled.add("copy");
    const patient = process({ times: { takeoverAfter: 60_000 } });
    expect(await codeOf(make(patient))).toBe("aborted");
    expect(on("b").targets.has("copy")).toBe(true);
    const stopping = one.stop(1_000);
    release();
    await stopping;
    on("b").records.set("copy", writeRecord({ ...record(), holder: "killed" }));
    on("b").cancelled.add("copy");
    const two = process();
    expect(await codeOf(asked(() => make(two), 10_000))).toBe("failed-precondition");
    expect(remains()).toEqual([]);
    await Promise.all([patient.stop(1_000), two.stop(1_000)]);
  });

  test("the record of a finished copy without its volume goes, and the copy is made again", async () => {
    const { one, record, on } = await complete();
    on("b").records.set("copy", writeRecord({ ...record(), state: "finished" }));
    on("b").targets.delete("copy");
    expect(await failure(make(one))).toMatchObject({
      code: "aborted",
      message: expect.stringContaining("no longer exists"),
    });
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    expect(on("b").volumes.get("copy")?.content).toBe(content);
    await one.stop(1_000);
  });

  test("one that cannot write its record ends its copy before another may begin", async () => {
    const { process, hold, reached, release, on } = pair();
    hold();
    const one = process({ times: { heartbeat: 10, leaseTimeout: 60 } });
    expect(await codeOf(make(one))).toBe("aborted");
    await reached();
    on("b").step = what => {
      if (what === "note") throw new CsiError("unavailable", "no answer");
    };
    const running = one.copies.running({ kind: "volume", connection: "b", id: "copy" });
    // More than the 60 ms for which an owner may be unable to write.
    await passing(150);
    release();
    expect(await running?.done).toMatchObject({ kind: "paused", why: { code: "unavailable" } });
    await one.stop(1_000);
  });
});

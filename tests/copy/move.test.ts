import { describe, expect, test } from "bun:test";
import type { CopyCommand } from "../../lib/copies/protocol.ts";
import { writeRecord } from "../../lib/copies/record.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { CopyTarget } from "../../lib/drivers/copying.ts";
import type { Driver } from "../../lib/drivers/driver.ts";
import { copyDriver } from "../fakes/memory-copies.ts";
import { codeOf, failure } from "../mux/world.ts";
import { asked, until } from "./copy-world.ts";
import { call, commanded, content, make, pair } from "./pair.ts";

describe("a move", () => {
  const wanted = {
    ...{ source: "v:a/source", name: "moved", bytes: 1n << 20n, parameters: { connection: "b" } },
    ...{ capabilities: [], mutable: {} },
  };

  test("copies in passes, makes the last one the volume, and repeats every step", async () => {
    const { process, on, remains } = pair();
    const one = process();
    expect(await commanded(one, { command: "plan", ...wanted })).toMatchObject([{ kind: "done", method: "zfs-send" }]);
    expect(remains()).toEqual([]);
    for (const _ of [1, 2])
      expect(await commanded(one, { command: "begin", ...wanted })).toMatchObject([
        { target: "v:b/moved", method: "zfs-send" },
      ]);
    const pass = { command: "pass", target: "v:b/moved" } as const;
    expect((await commanded(one, pass)).at(-1)).toMatchObject({ pass: { number: 0, continued: true } });
    on("a").volumes.set("source", { content: "changed since", bytes: 1n << 20n });
    expect((await commanded(one, pass)).at(-1)).toMatchObject({ pass: { number: 1, continued: false } });
    expect(on("a").held.get("v:b/moved")?.size).toBe(1);
    expect(on("b").volumes.has("moved")).toBe(false);
    const done = { kind: "done", volume: { handle: "v:b/moved", bytes: 1n << 20n, context: { at: "moved" } } };
    for (const _ of [1, 2]) {
      expect(await commanded(one, { command: "finish", target: "v:b/moved" })).toMatchObject([done]);
      await until(() => remains().length === 0);
    }
    expect(on("b").volumes.get("moved")?.content).toBe("changed since");
    await one.stop(1_000);
  });

  test("is refused by a class that keeps its volumes, where the driver cannot", async () => {
    const { process, remains } = pair();
    const one = process();
    const parameters = { ...wanted.parameters, deleteStrategy: "retain" };
    for (const command of ["plan", "begin"] as const)
      expect(await failure(commanded(one, { command, ...wanted, parameters }))).toMatchObject({
        code: "invalid-argument",
        message: expect.stringContaining("deleteStrategy: retain"),
      });
    expect(remains()).toEqual([]);
    await one.stop(1_000);
  });

  const written = "everything that was written until the stop";
  const stopPods = (world: ReturnType<typeof pair>) =>
    world.on("a").volumes.set("source", { content: written, bytes: 1n << 20n });
  const pass = { command: "pass", target: "v:b/moved" } as const;
  const finish = { command: "finish", target: "v:b/moved" } as const;
  const freeze = { command: "freeze", volume: "v:a/source" } as const;

  test("takes a new snapshot after one that was taken for an interrupted pass and never recorded", async () => {
    const world = pair();
    const one = world.process();
    await commanded(one, { command: "begin", ...wanted });
    await commanded(one, pass);
    world.on("b").step = what => {
      if (what !== "note") return;
      world.on("b").step = () => {};
      throw new CsiError("unavailable", "no route to host");
    };
    expect(await codeOf(commanded(one, pass))).toBe("unavailable");
    expect(world.record("moved")).toMatchObject({ state: "ready", pass: 0 });
    stopPods(world);
    expect((await commanded(one, pass)).at(-1)).toMatchObject({ pass: { number: 1, continued: false } });
    await commanded(one, finish);
    expect(world.on("b").volumes.get("moved")?.content).toBe(written);
    await one.stop(1_000);
  });

  test.each(["here", "in another process"])(
    "refuses to finish a pass that began before freeze, run %s",
    async where => {
      const world = pair();
      const one = world.process();
      const two = where === "here" ? one : world.process();
      await commanded(one, { command: "begin", ...wanted });
      world.hold();
      const client = new AbortController();
      const first = codeOf(one.copies.command(pass, () => {}, client.signal, call));
      await world.reached();
      client.abort(new CsiError("aborted", "the connection to the client broke"));
      stopPods(world);
      if (two !== one) {
        // Another process cannot write into the record of a running copy.
        expect(await codeOf(commanded(two, freeze))).toBe("aborted");
        world.release();
        await until(() => world.record("moved").state === "ready");
      }
      const noted = {
        kind: "done",
        instead: [expect.stringContaining("cannot set a volume to read-only; it is noted")],
      };
      expect(await commanded(two, freeze)).toMatchObject([noted]);
      world.release();
      expect((await commanded(two, pass)).at(-1)).toMatchObject({
        pass: where === "here" ? { number: 0, continued: true } : { number: 1, continued: false },
      });
      if (two === one) {
        expect(await commanded(two, finish).catch(String)).toMatch(/began before its source was stopped.*pass again/);
        expect((await commanded(two, pass)).at(-1)).toMatchObject({ pass: { number: 1, continued: false } });
      }
      await commanded(two, finish);
      expect(world.on("b").volumes.get("moved")?.content).toBe(written);
      await first;
      await Promise.all([one.stop(1_000), two.stop(1_000)]);
    },
  );

  test("a pass that began while freeze was noted does not become the volume, and after thaw it does", async () => {
    const world = pair();
    const one = world.process();
    await commanded(one, { command: "begin", ...wanted });
    await commanded(one, pass);
    // Another process notes freeze between the snapshot of the next pass and its record.
    world.on("a").step = what => {
      if (what !== "protected") return;
      world.on("b").records.set("moved", writeRecord({ ...world.record("moved"), frozen: 1 }));
      world.on("a").step = () => {};
    };
    expect(await codeOf(commanded(one, pass))).toBe("aborted");
    expect(world.record("moved")).toMatchObject({ pass: 0, frozen: 1 });
    expect(await codeOf(commanded(one, finish))).toBe("failed-precondition");
    expect(await codeOf(commanded(one, { command: "thaw", volume: "v:a/source" }))).toBeUndefined();
    expect(world.record("moved").frozen).toBeUndefined();
    await commanded(one, finish);
    await one.stop(1_000);
  });

  test.each(["", "killed"])(
    "makes no pass into the volume of a finish that ended before its record said so (holder %j)",
    async holder => {
      const world = pair();
      const one = world.process();
      await commanded(one, { command: "begin", ...wanted });
      await commanded(one, pass);
      world.on("b").targets.delete("moved");
      const origin = { kind: "volume", handle: wanted.source } as const;
      world.on("b").volumes.set("moved", { content, bytes: wanted.bytes, origin });
      world.on("b").records.set("moved", writeRecord({ ...world.record("moved"), holder }));
      const left = world.on("b").records.get("moved");
      stopPods(world);
      const refused = await failure(commanded(one, pass));
      expect(refused).toMatchObject({
        code: "failed-precondition",
        message: expect.stringContaining("is the volume already; run csimux copies finish"),
      });
      expect([world.on("b").records.get("moved"), world.on("b").targets.size]).toEqual([left, 0]);
      expect(world.on("b").volumes.get("moved")?.content).toBe(content);
      expect(await asked(() => commanded(one, finish))).toMatchObject([{ volume: { handle: "v:b/moved" } }]);
      await until(() => world.remains().length === 0);
      await one.stop(1_000);
    },
  );

  test("begins with an id from before csimux, which has no prefix", async () => {
    const one = pair().process({ legacyConnection: "a" });
    expect(await commanded(one, { command: "begin", ...wanted, source: "source" })).toMatchObject([
      { target: "v:b/moved" },
    ]);
    const freeze = { command: "freeze", volume: "source" } as const;
    expect(await codeOf(commanded(one, freeze))).toBeUndefined();
    await commanded(one, { command: "cancel", target: "v:b/moved" });
    // Nothing notes it.
    expect(await codeOf(commanded(one, freeze))).toBe("failed-precondition");
    await one.stop(1_000);
  });

  test("starts no pass while its target becomes the volume", async () => {
    const world = pair();
    const { promise, resolve } = Promise.withResolvers<void>();
    const driver = (): Driver => {
      const whole = copyDriver(world.on("b"), "b");
      const { copyTarget } = whole;
      if (!copyTarget) return whole;
      const finish: CopyTarget["finish"] = async (...given) => {
        world.on("b").step("stored");
        await promise;
        return copyTarget.finish(...given);
      };
      return { ...whole, copyTarget: { ...copyTarget, finish } };
    };
    const drivers = new Map([
      ["a", () => copyDriver(world.on("a"), "a")],
      ["b", driver],
    ]);
    const one = world.process({ drivers });
    const target = "v:b/moved";
    await commanded(one, { command: "begin", ...wanted });
    await commanded(one, { command: "pass", target });
    let isLanding = false;
    world.on("b").step = what => {
      isLanding ||= what === "stored";
    };
    const stored = commanded(one, { command: "finish", target });
    await until(() => isLanding);
    world.on("a").volumes.set("source", { content: "changed since", bytes: 1n << 20n });
    expect(await codeOf(commanded(one, { command: "pass", target }))).toBe("aborted");
    expect(await codeOf(commanded(one, { command: "finish", target }))).toBe("aborted");
    resolve();
    await stored;
    expect(world.on("b").volumes.get("moved")?.content).toBe(content);
    await one.stop(1_000);
  });

  test("whose cancellation another process completes before this one notes that it makes the volume is cancelled", async () => {
    const world = pair();
    const one = world.process();
    const target = "v:b/moved";
    await commanded(one, { command: "begin", ...wanted });
    await commanded(one, { command: "pass", target });
    world.on("b").step = what => {
      if (what !== "note") return;
      world.on("b").step = () => {};
      world.on("b").targets.clear();
      world.on("a").held.clear();
    };
    const refused = await failure(asked(() => commanded(one, { command: "finish", target })));
    expect(refused).toMatchObject({
      code: "failed-precondition",
      message: 'the copy to volume "moved" was cancelled',
    });
    expect([world.remains(), world.on("b").volumes.has("moved")]).toEqual([[], false]);
    expect(world.on("a").volumes.get("source")?.content).toBe(content);
    await one.stop(1_000);
  });

  test("is listed, and refuses what does not fit", async () => {
    const { process } = pair();
    const one = process();
    await commanded(one, { command: "begin", ...wanted });
    const [listed] = await commanded(one, { command: "list" });
    expect(listed).toMatchObject({
      kind: "copy",
      target: "v:b/moved",
      source: "v:a/source",
      role: "move",
      state: "paused",
    });
    expect((await commanded(one, { command: "list" })).at(-1)).toEqual({
      kind: "done",
      listed: ["a", "b", "c"],
      unlisted: [],
    });
    const refused = (command: CopyCommand) => codeOf(commanded(one, command));
    expect(await refused({ command: "finish", target: "v:b/moved" })).toBe("failed-precondition");
    expect(await refused({ command: "finish", target: "v:b/none" })).toBe("not-found");
    expect(await refused({ command: "pass", target: "v:b/none" })).toBe("not-found");
    expect(await refused({ command: "freeze", volume: "v:a/other" })).toBe("failed-precondition");
    expect(await refused({ command: "begin", ...wanted, name: "x", parameters: { connection: "a" } })).toBe(
      "invalid-argument",
    );
    expect(await codeOf(make(one, "b", "moved"))).toBe("already-exists");
    expect(await commanded(one, { command: "cancel", target: "v:b/moved" })).toMatchObject([{ kind: "done" }]);
    await one.stop(1_000);
  });

  test("the listing of copies names a connection that does not answer, instead of waiting for it", async () => {
    const one = pair().process({ look: 50 });
    await commanded(one, { command: "begin", ...wanted });
    await one.connections.use("a", "retry", async ({ driver }) =>
      Object.defineProperty(driver.copyTarget, "copies", { value: () => new Promise(() => {}) }),
    );
    const answers = await commanded(one, { command: "list" });
    expect(answers.at(0)).toMatchObject({ kind: "copy", target: "v:b/moved" });
    expect(answers.at(-1)).toEqual({ kind: "done", listed: ["b", "c"], unlisted: ["a"] });
    await one.stop(1_000);
  });
});

import { describe, expect, test } from "bun:test";
import { seconds } from "../../lib/copies/lease.ts";
import { readRecord, writeRecord } from "../../lib/copies/record.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { copyDriver } from "../fakes/memory-copies.ts";
import { codeOf, failure } from "../mux/world.ts";
import { asked } from "./copy-world.ts";
import { call, commanded, complete, content, make, pair } from "./pair.ts";

test("a record without room for its failure leaves that out", async () => {
  const { process, record } = pair();
  const one = process();
  await commanded(one, {
    ...({ command: "begin", source: "v:a/source", name: "moved", bytes: 1n << 20n, mutable: {} } as const),
    ...{ capabilities: [], parameters: { connection: "b", more: "x".repeat(3_300) } },
  });
  const begun = record("moved");
  for (const fault of ["short", "é".repeat(300)])
    expect([fault, readRecord(writeRecord({ ...begun, fault }), "test").fault]).toEqual([
      fault,
      fault === "short" ? fault : "",
    ]);
  await one.stop(1_000);
});

describe("what is forgotten", () => {
  test("goes: a target that was not asked for, and a snapshot without a copy", async () => {
    const { process, hold, release, record, on, remains } = pair();
    hold();
    const one = process();
    expect(await codeOf(make(one))).toBe("aborted");
    await one.copies.cleanUp(call);
    expect(remains()).not.toEqual([]);
    const stopping = one.stop(1_000);
    release();
    await stopping;
    const two = process();
    await two.copies.cleanUp(call);
    expect(remains()).toHaveLength(3);
    on("b").records.set("copy", writeRecord({ ...record(), asked: seconds() - 73 * 3_600 }));
    await two.copies.cleanUp(call);
    expect(remains()).toEqual([]);
    const old = { content, bytes: 1n, name: "m", proof: "p", since: seconds() - 73 * 3_600 };
    for (const target of ["v:b/gone", "v:unknown/gone"]) on("a").held.set(target, new Map([[0, old]]));
    on("a").held.set("v:b/young", new Map([[0, { ...old, since: seconds() }]]));
    await two.copies.cleanUp(call);
    // The target of one cannot answer, and the other may be about to begin.
    expect(remains()).toEqual(["snapshot v:unknown/gone", "snapshot v:b/young"]);
    await two.stop(1_000);
  });

  /** A finished copy whose source did not answer at its end. */
  async function unreleased() {
    const world = pair();
    const one = world.process();
    world.on("a").step = what => {
      if (what === "release") throw new CsiError("unavailable", "no answer");
    };
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    await one.stop(1_000);
    expect(world.remains()).toHaveLength(2);
    world.on("a").step = () => {};
    return world;
  }

  test("a finished volume keeps nothing but itself", async () => {
    const { process, on, remains } = await unreleased();
    const two = process();
    await two.copies.cleanUp(call);
    expect(remains()).toEqual([]);
    expect(on("b").volumes.has("copy")).toBe(true);
    await two.stop(1_000);
  });

  test("what stays because the connection of its other end has no file is listed with the reason", async () => {
    const { process, on, remains } = await unreleased();
    const without = async (gone: string) => {
      const names = ["a", "b", "c"].filter(name => name !== gone);
      const two = process({ drivers: new Map(names.map(name => [name, () => copyDriver(on(name), name)])) });
      await two.copies.cleanUp(call);
      const done = (await commanded(two, { command: "list" })).at(-1);
      await two.stop(1_000);
      return done;
    };
    const reason = (gone: string) => `because connection "${gone}" is not configured; restore its file ${gone}.yaml`;
    const [left, right] = [await without("a"), await without("b")];
    expect([left, right]).toEqual([
      {
        ...({ kind: "done", listed: ["b", "c"], unlisted: [] } as const),
        kept: [
          `connection "b" keeps the record of the copy to volume v:b/copy, ${reason("a")}; without it, the record goes with the volume`,
        ],
      },
      {
        ...({ kind: "done", listed: ["a", "c"], unlisted: [] } as const),
        kept: [
          `connection "a" keeps a snapshot of the copy to volume v:b/copy, ${reason("b")}, or remove the snapshot on its storage`,
        ],
      },
    ]);
    expect(remains()).toEqual(["snapshot v:b/copy", "record copy"]);
    const three = process();
    expect((await commanded(three, { command: "list" })).at(-1)).toEqual({
      ...({ kind: "done", listed: ["a", "b", "c"], unlisted: [] } as const),
    });
    await three.stop(1_000);
  });

  test("does not go: a complete copy that its claim asks for, and that cannot become the volume yet", async () => {
    const { one, on, record, remains } = await complete();
    on("b").step = what => {
      if (what === "finish") throw new CsiError("unavailable", "the share cannot be made");
    };
    on("b").records.set("copy", writeRecord({ ...record(), asked: seconds() - 73 * 3_600 }));
    expect(await codeOf(make(one))).toBe("unavailable");
    await one.copies.cleanUp(call);
    expect(remains()).toEqual(["snapshot v:b/copy", "record copy", "target copy"]);
    on("b").step = () => {};
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    await one.stop(1_000);
  });

  test("a deletion keeps the record of a target that cannot be removed and is not a volume", async () => {
    const { one, on, remains } = await complete();
    on("b").step = what => {
      if (what === "drop")
        throw new CsiError("failed-precondition", "the dataset has a snapshot that is not of csimux");
    };
    expect(await codeOf(one.volumes.delete("v:b/copy", call))).toBe("failed-precondition");
    expect(remains()).toEqual(["snapshot v:b/copy", "record copy", "target copy"]);
    on("b").step = () => {};
    await one.volumes.delete("v:b/copy", call);
    expect(remains()).toEqual([]);
    await one.stop(1_000);
  });

  /** A copy that was cancelled in the process that made it. */
  async function cancelled() {
    const world = pair();
    world.hold();
    const one = world.process();
    expect(await codeOf(make(one))).toBe("aborted");
    const cancelling = commanded(one, { command: "cancel", target: "v:b/copy" });
    world.release();
    await cancelling;
    expect(world.remains()).toEqual(["record copy"]);
    return { ...world, one };
  }

  test("a cancelled copy is gone, and its ghost learns it once, from any process", async () => {
    const { process, remains, one } = await cancelled();
    await one.stop(1_000);
    const two = process();
    await two.copies.cleanUp(call);
    expect(await failure(make(two))).toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining("cancelled"),
    });
    expect(remains()).toEqual([]);
    expect((await asked(() => make(two))).id).toBe("v:b/copy");
    await two.stop(1_000);
  });

  test("a cancellation succeeds although a request removes the record meanwhile", async () => {
    const { process, hold, release, on, remains } = pair();
    hold();
    const one = process();
    expect(await codeOf(make(one))).toBe("aborted");
    on("b").step = what => void (what === "emptied" && on("b").records.delete("copy"));
    const cancelling = commanded(one, { command: "cancel", target: "v:b/copy" });
    release();
    expect(await cancelling).toMatchObject([{ kind: "done", target: "v:b/copy" }]);
    expect(remains()).toEqual([]);
    await one.stop(1_000);
  });

  test("the record of a cancelled copy that is not asked for goes after an hour, or with the deletion of its volume", async () => {
    const { on, record, remains, one } = await cancelled();
    on("b").records.set("copy", writeRecord({ ...record(), asked: seconds() - 3_500 }));
    await one.copies.cleanUp(call);
    expect(remains()).toEqual(["record copy"]);
    on("b").records.set("copy", writeRecord({ ...record(), asked: seconds() - 3_700 }));
    await one.copies.cleanUp(call);
    expect(remains()).toEqual([]);
    await one.stop(1_000);
    const again = await cancelled();
    await again.one.volumes.delete("v:b/copy", call);
    expect(again.remains()).toEqual([]);
    await again.one.stop(1_000);
  });

  test("a copy that has become the volume cannot be cancelled, whether its record says so or not", async () => {
    const { process, on, record } = pair();
    const one = process();
    on("a").step = what => {
      if (what === "release") throw new CsiError("unavailable", "no answer");
    };
    expect((await asked(() => make(one))).id).toBe("v:b/copy");
    for (const state of ["finished", "ready"] as const) {
      on("b").records.set("copy", writeRecord({ ...record(), state }));
      const cancelling = commanded(one, { command: "cancel", target: "v:b/copy" });
      expect(await codeOf(cancelling)).toBe("failed-precondition");
      expect(record().state).toBe(state);
    }
    await one.stop(1_000);
  });
});

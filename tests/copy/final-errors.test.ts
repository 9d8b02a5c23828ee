import { describe, expect, test } from "bun:test";
import { type CopyByStream, endsCopy } from "../../lib/copies/copy-work.ts";
import { ChangedRecordError } from "../../lib/copies/record.ts";
import { type Code, CsiError } from "../../lib/core/errors.ts";
import type { Driver } from "../../lib/drivers/driver.ts";
import { copyDriver } from "../fakes/memory-copies.ts";
import { codeOf, failure } from "../mux/world.ts";
import { asked, until } from "./copy-world.ts";
import { content, make, pair } from "./pair.ts";

describe("after an error, a copy", () => {
  const claim = { role: "create", dirty: true } as const;
  const empty = { role: "create", dirty: false } as const;
  const move = { role: "move", dirty: true } as const;

  test.each([
    ["continues: its storage does not answer", "unavailable", empty, false, false],
    ["continues: a person can load the key, also after a restart", "failed-precondition", claim, false, false],
    ["ends: its source does not exist", "not-found", claim, false, true],
    ["continues: the source decides", "not-found", claim, true, false],
    ["ends: nothing has arrived", "resource-exhausted", empty, true, true],
    ["continues: a person can make room", "resource-exhausted", claim, true, false],
    ["continues: a person can load the key", "failed-precondition", claim, true, false],
    ["ends: no repetition copies that", "invalid-argument", claim, true, true],
    ["ends: its operator gets the error", "resource-exhausted", move, true, true],
    ["continues: of a move, too", "unavailable", move, true, false],
  ] as const satisfies readonly (readonly [string, Code, object, boolean, boolean])[])(
    "%s (%s)",
    (_, code, record, isChecked, ends) => {
      expect(endsCopy(new CsiError(code, "x"), record, isChecked)).toBe(ends);
    },
  );
});

test("a record that does not agree with the source ends the copy, whatever has arrived", () => {
  const claim = { role: "create", dirty: true } as const;
  expect(endsCopy(new ChangedRecordError("x"), claim, false)).toBe(true);
});

test("a copy of which a part has arrived continues when its source refuses to be read right after a restart", async () => {
  const world = pair();
  const { on } = world;
  let isCut = false;
  const cut: CopyByStream = async ({ progress }) => {
    progress(4n);
    isCut = true;
    throw new CsiError("unavailable", "no route to host");
  };
  const first = world.process({ stream: cut, times: { firstPause: 60_000 } });
  expect(await codeOf(make(first))).toBe("aborted");
  await until(() => isCut);
  await first.stop(1_000);
  expect(world.record()).toMatchObject({ holder: "", state: "copying", dirty: true });
  let asks = 0;
  const source = (): Driver => {
    const whole = copyDriver(on("a"), "a");
    const { copySource } = whole;
    if (!copySource) return whole;
    const protect: typeof copySource.protect = async (...given) => {
      if (++asks === 1) throw new CsiError("failed-precondition", "the account may not hold snapshots");
      return copySource.protect(...given);
    };
    return { ...whole, copySource: { ...copySource, protect } };
  };
  const drivers = new Map([
    ["a", source],
    ["b", () => copyDriver(on("b"), "b")],
  ]);
  const next = world.process({ drivers });
  expect((await asked(() => make(next))).id).toBe("v:b/copy");
  expect(asks).toBeGreaterThan(1);
  await next.stop(1_000);
});

test("a copy whose snapshot is not found continues when its source, which cannot be asked at first, still has it", async () => {
  const world = pair();
  let [runs, asks] = [0, 0];
  const stream = async () => {
    if (++runs === 1) throw new CsiError("not-found", "the pool of the source is not imported");
    const target = world.on("b").targets.get("copy");
    const [snapshot] = [...(world.on("a").held.get("v:b/copy")?.values() ?? [])];
    Object.assign(target ?? {}, { content, proof: snapshot?.proof, isWhole: true });
    return { basic: false };
  };
  const source = (): Driver => {
    const whole = copyDriver(world.on("a"), "a");
    const { copySource } = whole;
    if (!copySource) return whole;
    const protect: typeof copySource.protect = async (...given) => {
      if (runs === 1 && ++asks === 1) throw new CsiError("unavailable", "no route to host");
      return copySource.protect(...given);
    };
    return { ...whole, copySource: { ...copySource, protect } };
  };
  const drivers = new Map([
    ["a", source],
    ["b", () => copyDriver(world.on("b"), "b")],
  ]);
  const one = world.process({ drivers, stream, times: { answerWithin: 0 } });
  expect(await codeOf(make(one))).toBe("aborted");
  await until(() => world.record().holder === "" && world.record().heartbeat > 0);
  expect([world.record().state, asks]).toEqual(["ready", 1]);
  expect((await asked(() => make(one))).id).toBe("v:b/copy");
  await one.stop(1_000);
});

test.each([
  ["resource-exhausted", "no space is left"],
  ["failed-precondition", "the file system is read-only"],
  ["internal", "a tool failed"],
] as const)(
  "a copy of which a part has arrived continues after its record cannot be written (%s)",
  async (code, text) => {
    const world = pair();
    const to = world.on("b");
    let isCut = false;
    const cut: CopyByStream = async ({ progress }) => {
      Object.assign(to.targets.get("copy") ?? {}, { content: content.slice(0, 40), proof: "guid-1" });
      progress(40n);
      isCut = true;
      throw new CsiError("unavailable", "no route to host");
    };
    const first = world.process({ stream: cut, times: { firstPause: 60_000 } });
    expect(await codeOf(make(first))).toBe("aborted");
    await until(() => isCut);
    await first.stop(1_000);
    expect(world.record()).toMatchObject({ holder: "", state: "copying", dirty: true });
    to.step = what => {
      if (what === "note") throw new CsiError(code, text);
    };
    const next = world.process();
    expect(await failure(make(next))).toMatchObject({ code: "unavailable", message: expect.stringContaining(text) });
    expect(to.targets.get("copy")?.content).toHaveLength(40);
    to.step = () => {};
    expect((await asked(() => make(next))).id).toBe("v:b/copy");
    expect(world.on("a").taken).toBe(1);
    await next.stop(1_000);
  },
);

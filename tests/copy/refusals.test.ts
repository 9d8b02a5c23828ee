import { describe, expect, test } from "bun:test";
import { assurance, type CopyRecord } from "../../lib/copies/record.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { codeOf, failure } from "../mux/world.ts";
import { asked, type CopyWorldParts, copyRequest, until } from "./copy-world.ts";
import { call, commanded, complete, make, pair } from "./pair.ts";

describe("what is refused", () => {
  test.each([
    ["copies are switched off", { settings: { enabled: false } }, "failed-precondition"],
    [
      "nothing may leave",
      {
        traits: {
          a: { copies: { from: undefined, to: { kind: "members", members: [] }, allowPlain: false, dropAcls: false } },
        },
      },
      "failed-precondition",
    ],
    [
      "it may come from others only",
      {
        traits: {
          b: {
            copies: { from: { kind: "members", members: ["c"] }, to: undefined, allowPlain: false, dropAcls: false },
          },
        },
      },
      "failed-precondition",
    ],
  ] satisfies readonly (readonly [string, Partial<CopyWorldParts>, string])[])(
    "leaves nothing: %s",
    async (_, more, code) => {
      const { process, remains } = pair();
      const one = process(more);
      expect(await codeOf(make(one))).toBe(code);
      expect(remains()).toEqual([]);
      await one.stop(1_000);
    },
  );

  const nothing = {
    from: undefined,
    to: { kind: "members", members: [] },
    allowPlain: false,
    dropAcls: false,
  } as const;
  const none = {
    to: undefined,
    from: { kind: "members", members: ["c"] },
    allowPlain: false,
    dropAcls: false,
  } as const;

  test.each(["a", "b"] as const)(
    "a copy that runs is refused once the file of %s forbids it, and leaves nothing",
    async where => {
      const world = pair();
      world.hold();
      const traits: { a?: { copies: typeof nothing }; b?: { copies: typeof none } } = {};
      const one = world.process({ traits });
      expect(await codeOf(make(one))).toBe("aborted");
      if (where === "a") traits.a = { copies: nothing };
      else traits.b = { copies: none };
      const message = expect.stringContaining("is no longer allowed");
      // Its program does not end, and the request does.
      expect(await failure(make(one))).toMatchObject({ code: "aborted", message });
      world.release();
      expect(await failure(asked(() => make(one)))).toMatchObject({
        ...{ code: "failed-precondition", message },
      });
      expect([world.remains(), one.copies.view().running]).toEqual([[], []]);
      await one.stop(1_000);
    },
  );

  test("so is one whose data is complete, in another process; one that is a volume already stays", async () => {
    const { one, process, on, remains } = await complete();
    expect((await asked(() => make(one, "c", "whole"))).id).toBe("v:c/whole");
    await one.stop(1_000);
    const two = process({ traits: { a: { copies: nothing } } });
    expect(await codeOf(make(two))).toBe("failed-precondition");
    expect([remains(), on("b").volumes.size]).toEqual([[], 0]);
    expect((await make(two, "c", "whole")).id).toBe("v:c/whole");
    await two.stop(1_000);
  });

  test("a pass that they no longer allow leaves a claim's copy to the process that works on it", async () => {
    const { process, hold, reached, release, on } = pair();
    hold();
    const one = process();
    expect(await codeOf(make(one))).toBe("aborted");
    await reached();
    const two = process({ traits: { a: { copies: nothing } }, times: { takeoverAfter: 60_000 } });
    expect(await failure(commanded(two, { command: "pass", target: "v:b/copy" }))).toMatchObject({
      code: "aborted",
      message: expect.stringContaining("another csimux"),
    });
    expect([on("b").targets.has("copy"), on("b").records.has("copy")]).toEqual([true, true]);
    release();
    await Promise.all([one.stop(1_000), two.stop(1_000)]);
  });

  test("a move that is forbidden meanwhile keeps its progress", async () => {
    const { process, on, remains } = pair();
    const wanted = { source: "v:a/source", name: "moved", bytes: 1n << 20n, parameters: { connection: "b" } };
    const one = process();
    await commanded(one, { command: "begin", ...wanted, capabilities: [], mutable: {} });
    await commanded(one, { command: "pass", target: "v:b/moved" });
    await one.stop(1_000);
    const two = process({ traits: { b: { copies: none } } });
    for (const command of ["pass", "finish"] as const)
      expect(await codeOf(commanded(two, { command, target: "v:b/moved" }))).toBe("failed-precondition");
    expect([remains().length, on("b").targets.get("moved")?.isWhole]).toEqual([3, true]);
    await two.stop(1_000);
    const three = process();
    await commanded(three, { command: "finish", target: "v:b/moved" });
    expect(on("b").volumes.has("moved")).toBe(true);
    await three.stop(1_000);
  });

  test("a target without room, or with another kind of storage, leaves nothing", async () => {
    const { process, on, remains } = pair();
    const one = process();
    on("b").refuses = new CsiError("resource-exhausted", "too little space");
    expect(await codeOf(make(one))).toBe("resource-exhausted");
    expect(remains()).toEqual([]);
    on("b").refuses = undefined;
    const small = { range: { required: 1n << 10n, limit: undefined } };
    expect(await codeOf(one.volumes.create(copyRequest("copy", "b", "v:a/source", small), call))).toBe("out-of-range");
    expect(remains()).toEqual([]);
    await one.stop(1_000);
    on("b").content = "blocks";
    const two = process();
    expect(await codeOf(make(two))).toBe("invalid-argument");
    expect(remains()).toEqual([]);
    expect(await codeOf(two.volumes.create(copyRequest("copy", "b", "v:gone/source"), call))).toBe("unavailable");
    await two.stop(1_000);
  });

  test("a record of a newer csimux is left as it is", async () => {
    const { process, on } = pair();
    const one = process();
    on("b").records.set("copy", '{"version":2}');
    const answer = await failure(make(one));
    expect(answer).toMatchObject({ code: "failed-precondition", message: expect.stringContaining("v:b/copy") });
    await one.copies.cleanUp(call);
    expect(on("b").records.get("copy")).toBe('{"version":2}');
    await one.stop(1_000);
  });
});

describe("groups", () => {
  const groups = new Map([["both", { from: { kind: "members", members: ["b", "c"] }, policy: "ordered" } as const]]);

  test("a copy continues on the member where it has begun, whatever the order is", async () => {
    const { process, hold, release, on } = pair();
    hold();
    on("b").refuses = new CsiError("resource-exhausted", "too little space");
    const one = process({ groups });
    expect(await codeOf(make(one, "both"))).toBe("aborted");
    expect(on("c").records.has("copy")).toBe(true);
    on("b").refuses = undefined;
    release();
    expect((await asked(() => make(one, "both"))).id).toBe("v:c/copy");
    await one.stop(1_000);
  });

  test("the source's own connection clones; if it takes no volumes, another member copies", async () => {
    const { process } = pair();
    const all = new Map([["all", { from: { kind: "members", members: ["c", "a", "b"] }, policy: "ordered" } as const]]);
    const one = process({ groups: all });
    expect((await make(one, "all")).id).toBe("v:a/copy");
    await one.stop(1_000);
    const two = process({ groups: all, traits: { a: { suspended: true } } });
    expect((await asked(() => make(two, "all", "second"))).id).toBe("v:c/second");
    await two.stop(1_000);
  });

  test("no member with a method: the answer has the reason", async () => {
    const { process } = pair();
    const one = process({ groups, settings: { enabled: false } });
    expect(await codeOf(make(one, "both"))).toBe("failed-precondition");
    await one.stop(1_000);
  });
});

describe("a request for a copy that is finished", () => {
  test.each(["b", "both"])("is answered after its connection was suspended (%s)", async named => {
    const world = pair();
    const traits: Record<string, { suspended?: boolean }> = {};
    const groups = new Map([["both", { from: { kind: "members", members: ["b", "c"] }, policy: "ordered" } as const]]);
    const one = world.process({ traits, groups });
    const made = await asked(() => make(one, named));
    await until(() => world.remains().length === 0);
    traits["b"] = { suspended: true };
    expect(await make(one, named)).toEqual(made);
    expect(await codeOf(make(one, "b", "another"))).toBe("resource-exhausted");
    await one.stop(1_000);
  });
});

test("a final failure after the answer of a request is the answer of the next one, and ends the copy", async () => {
  const world = pair();
  let runs = 0;
  const stream = async () => {
    runs++;
    await world.on("a").gate();
    throw new CsiError("not-found", "the key of tank/v is not loaded");
  };
  world.hold();
  const one = world.process({ stream });
  expect(await codeOf(make(one))).toBe("aborted");
  await until(() => runs === 1);
  world.on("a").volumes.delete("source");
  world.on("a").held.clear();
  world.release();
  await until(() => world.record().holder === "");
  expect(await failure(make(one))).toMatchObject({ code: "not-found" });
  expect([runs, world.remains()]).toEqual([1, []]);
  await one.stop(1_000);
});

test("a group whose members are healthy names the source's connection if that is missing", async () => {
  const groups = new Map([["both", { from: { kind: "members", members: ["b", "c"] }, policy: "ordered" } as const]]);
  const one = pair().process({ groups });
  const refused = await failure(one.volumes.create(copyRequest("x", "both", "v:gone/source"), call));
  expect(refused?.code).toBe("unavailable");
  expect(refused?.message).toContain('"gone"');
  expect(refused?.message).not.toMatch(/connection "[bc]"/);
  await one.stop(1_000);
});

test.each([
  ["its content is proved", { proof: "guid", stable: true }, undefined, "zfs-send-local"],
  ["the names, sizes and times of its files equal", { proof: "guid", stable: true }, undefined, "rsync"],
  [
    "the names, sizes and times of its files equal those of the snapshot",
    { proof: "", stable: true },
    undefined,
    "rsync",
  ],
  ["its source may have changed", { proof: "", stable: false }, undefined, "rsync"],
  ["its source may have changed", { proof: "", stable: false }, 1, "rsync"],
  ["its last pass began after its source was stopped", { proof: "", stable: false }, 0, "rsync"],
] as const)("of a complete copy is said: %s", (text, snapshot, frozen, method) => {
  const record = { pass: 0, frozen, snapshot, method } as unknown as CopyRecord;
  expect(assurance(record)).toStartWith(text);
});

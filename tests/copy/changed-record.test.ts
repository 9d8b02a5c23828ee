import { describe, expect, test } from "bun:test";
import { type CopyRecord, readRecord, writeRecord } from "../../lib/copies/record.ts";
import { failure } from "../mux/world.ts";
import { asked, copyRequest, until } from "./copy-world.ts";
import { call, commanded, content, make, pair } from "./pair.ts";

const secret = "the content of a volume that was not asked for";

/** A pair whose source has another volume, which is being copied to somewhere else. */
function attacked() {
  const world = pair();
  const { on } = world;
  on("a").volumes.set("victim", { content: secret, bytes: 1n << 20n });
  on("c").volumes.set("other", { content: secret, bytes: 1n << 20n });
  const kept = { content: secret, bytes: 1n << 20n, name: "victim@v:c/kept-0", proof: "guid-victim", since: 1 };
  on("a").held.set("v:c/kept", new Map([[0, kept]]));
  /** What the storage of the target does to the record. */
  const change = (what: (record: CopyRecord) => Partial<CopyRecord>): void => {
    const record = readRecord(on("b").records.get("copy") ?? "", "test");
    on("b").records.set("copy", writeRecord({ ...record, ...what(record) }));
  };
  /** Whether content of another volume has ever arrived on the target. */
  const isLeaked = () =>
    JSON.stringify([...on("b").targets.values(), ...on("b").volumes.values()], text).includes(secret);
  return { ...world, change, isLeaked, victim: { name: kept.name, proof: kept.proof } };
}

const text = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);

type Change = (record: CopyRecord, victim: Pick<CopyRecord["snapshot"], "name" | "proof">) => Partial<CopyRecord>;

const snapshots: readonly (readonly [string, Change])[] = [
  ["the snapshot of another volume", ({ snapshot }, victim) => ({ holder: "", snapshot: { ...snapshot, ...victim } })],
  [
    "that snapshot, all of which has arrived",
    ({ snapshot }, victim) => ({ holder: "", done: 9n, dirty: true, snapshot: { ...snapshot, ...victim } }),
  ],
  ["a later pass", () => ({ holder: "", pass: 3 })],
  ["a base", (_, victim) => ({ holder: "", earlier: victim })],
  [
    "a way that its snapshot does not have",
    ({ snapshot }) => ({ holder: "", method: "rsync", snapshot: { ...snapshot, methods: ["rsync"] } }),
  ],
];

describe.concurrent("the record on the target does not decide what is read: for a claim,", () => {
  test.each(snapshots)("%s, written between two requests, is refused, and then the copy is made", async (_, what) => {
    const { process, hold, release, change, isLeaked, victim, on, remains } = attacked();
    hold();
    const one = process();
    expect((await failure(make(one)))?.code).toBe("aborted");
    await one.stop(1_000);
    change(record => what(record, victim));
    release();
    const two = process();
    const refused = await failure(asked(() => make(two), 5_000));
    expect(["failed-precondition", "unavailable", "aborted"]).toContain(refused?.code ?? "");
    expect(isLeaked()).toBe(false);
    if (refused?.code === "failed-precondition") {
      expect(refused.message).toMatch(/v:b\/copy.*connection "b".*v:a\/source.*nothing was read/);
      await asked(() => make(two));
      expect(on("b").volumes.get("copy")?.content).toBe(content);
      await until(() => remains().every(each => each.includes("v:c/kept")));
    }
    await two.stop(1_000);
  });

  test.each(snapshots.slice(0, 4))("%s, written before the record is read back, is refused, too", async (_, what) => {
    const { process, change, isLeaked, victim, on } = attacked();
    let left = 1;
    on("b").step = step => {
      if (step === "recorded" && left-- > 0) change(record => what(record, victim));
    };
    const one = process();
    expect((await failure(asked(() => make(one))))?.code).toBe("failed-precondition");
    expect(isLeaked()).toBe(false);
    await asked(() => make(one));
    expect(on("b").volumes.get("copy")?.content).toBe(content);
    await one.stop(1_000);
  });

  test.each([
    ["origin", () => ({ origin: { kind: "volume", handle: "v:a/victim" } }) as const],
    ["size", () => ({ required: 2n << 30n })],
    ["purpose", () => ({ role: "move", move: { parameters: {}, mutable: {} } }) as const],
  ] as const)("another %s is another copy", async (_, what) => {
    const { process, hold, release, change, isLeaked } = attacked();
    hold();
    const one = process();
    expect((await failure(make(one)))?.code).toBe("aborted");
    await one.stop(1_000);
    change(() => ({ holder: "", ...what() }));
    release();
    const two = process();
    expect((await failure(asked(() => make(two))))?.code).toBe("already-exists");
    expect(isLeaked()).toBe(false);
    await two.stop(1_000);
  });

  test("what it says of bytes, beats and proofs changes no content", async () => {
    const { process, hold, release, change, on } = attacked();
    hold();
    const one = process();
    expect((await failure(make(one)))?.code).toBe("aborted");
    await one.stop(1_000);
    const most = 2n ** 63n - 1n;
    change(({ snapshot }) => ({
      ...{ holder: "", done: most, total: 1n, heartbeat: Number.MAX_SAFE_INTEGER - 10, fault: "x".repeat(300) },
      snapshot: {
        ...snapshot,
        proof: "guid-other",
        bytes: most,
        toSend: most,
        traits: { ...snapshot.traits, encrypted: false },
      },
    }));
    release();
    const two = process();
    await asked(() => make(two));
    expect(on("b").volumes.get("copy")).toMatchObject({ content });
    await two.stop(1_000);
  });
});

const begin = {
  ...({ command: "begin", source: "v:a/source", name: "copy", bytes: 1n << 20n } as const),
  ...{ parameters: { connection: "b" }, capabilities: [], mutable: {} },
};
const pass = { command: "pass", target: "v:b/copy" } as const;

const origins: readonly (readonly [string, Change])[] = [
  ["another volume of its connection as the source", () => ({ origin: { kind: "volume", handle: "v:a/victim" } })],
  ["a volume of another connection as the source", () => ({ origin: { kind: "volume", handle: "v:c/other" } })],
  ["the snapshot of another volume", ({ snapshot }, victim) => ({ snapshot: { ...snapshot, ...victim } })],
  [
    "another volume with its snapshot",
    ({ snapshot }, victim) => ({
      origin: { kind: "volume", handle: "v:a/victim" },
      snapshot: { ...snapshot, ...victim },
    }),
  ],
  ["a snapshot", ({ origin }) => ({ origin: { ...origin, kind: "snapshot", handle: "s:a/victim" } })],
  ["another name", () => ({ name: "more" })],
];

describe.concurrent("the record on the target does not decide what is read: for a move,", () => {
  test.each(origins)("%s is refused in the first pass", async (_, what) => {
    const { process, change, isLeaked, victim, on, record } = attacked();
    const one = process();
    await commanded(one, begin);
    const honest = record();
    const before = [...on("a").held.keys()];
    change(each => what(each, victim));
    const refused = await failure(commanded(one, pass));
    expect(refused?.code).toBe("failed-precondition");
    expect(refused?.message).toMatch(/v:b\/copy.*connection "b".*nothing was read/);
    expect(isLeaked()).toBe(false);
    expect([...on("a").held.keys(), ...on("c").held.keys()]).toEqual(before);
    change(() => honest);
    await commanded(one, pass);
    expect(on("b").targets.get("copy")?.content).toBe(content);
    await one.stop(1_000);
  });

  test.each(origins)("%s is refused in the second pass", async (_, what) => {
    const { process, change, isLeaked, victim, on, record } = attacked();
    const one = process();
    await commanded(one, begin);
    await commanded(one, pass);
    const honest = record();
    change(each => what(each, victim));
    expect((await failure(commanded(one, pass)))?.code).toBe("failed-precondition");
    expect(isLeaked()).toBe(false);
    change(() => honest);
    on("a").volumes.set("source", { content: `${content} and more`, bytes: 1n << 20n });
    await commanded(one, pass);
    expect(on("b").targets.get("copy")?.content).toBe(`${content} and more`);
    await one.stop(1_000);
  });

  test("a target that only the record of another request names is not copied to", async () => {
    const { process, on, isLeaked } = attacked();
    const one = process();
    await one.volumes.create(copyRequest("elsewhere", "c", "v:a/source"), call).catch(() => {});
    await commanded(one, begin);
    await commanded(one, { command: "cancel", target: "v:b/copy" });
    on("b").records.set("copy", "");
    expect((await failure(commanded(one, pass)))?.code).toBe("failed-precondition");
    expect(isLeaked()).toBe(false);
    await one.stop(1_000);
  });
});

describe.concurrent("a record that", () => {
  const good = JSON.stringify({ version: 1 });
  test.each([
    ["was cut short", good.slice(0, -2), "it is not JSON"],
    ["is empty", "", "it is not JSON"],
    ["is a megabyte long", " ".repeat(1 << 20), "it is longer than 4096 bytes"],
    ["is of a newer csimux", '{"version":2}', "update csimux"],
    ["is of no version", '{"version":"1"}', "version"],
    ["is a list", "[]", "version"],
  ])("%s is left as it is, and the error says why", async (_, record, why) => {
    const { process, on } = pair();
    const one = process();
    on("b").records.set("copy", record);
    for (const work of [() => make(one), () => commanded(one, pass)])
      expect(await failure(work())).toMatchObject({
        code: "failed-precondition",
        message: expect.stringMatching(new RegExp(`v:b/copy.*${why}`)),
      });
    expect(on("b").records.get("copy")).toBe(record);
    await one.stop(1_000);
  });

  test.each([
    ["pass", 1e21],
    ["pass", -1],
    ["heartbeat", 2 ** 60],
    ["heartbeat", 0.5],
    ["asked", 1e300],
    ["done", "9223372036854775808"],
    ["done", "-1"],
  ])("has the %s %p cannot be used", async (key, value) => {
    const { process, on, hold } = pair();
    hold();
    const one = process();
    await failure(make(one));
    await one.stop(1_000);
    const fields = JSON.parse(on("b").records.get("copy") ?? "");
    expect(() => readRecord(JSON.stringify({ ...fields, [key]: value }), "v:b/copy")).toThrow(key);
  });
});

import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import type { CacheTimeout } from "../../lib/core/proxy.ts";
import type { Connection } from "../../lib/mux/connection.ts";
import { Connections } from "../../lib/mux/connections.ts";
import { MemoryDriver, testCall } from "../fakes/memory-driver.ts";

/** Files in a Map; a text "bad…" cannot be opened, "unreadable" cannot even be read, a text "family:x…" is of family x. */
function world(timeout: CacheTimeout = { kind: "forever" }) {
  const files = new Map<string, string>();
  const clock = { now: 0 };
  const reads: { gate: Promise<void> } = { gate: Promise.resolve() };
  const hung = new Set<string>();
  const opened: { text: string; memory: MemoryDriver }[] = [];
  const warnings: string[] = [];
  const open = (name: string, text: string): Connection => {
    if (text.startsWith("bad")) throw new CsiError("failed-precondition", `line 1: ${text}`);
    const memory = new MemoryDriver();
    opened.push({ text, memory });
    const family = /^family:(\w+)/.exec(text)?.[1] ?? "memory";
    const driver = memory.driver();
    return {
      name,
      driverName: family,
      family,
      driver,
      access: driver.access,
      accessibleTopology: [],
      labels: {},
      suspended: false,
      retain: false,
    };
  };
  const said: string[] = [];
  const info = (message: string) => void said.push(message);
  const warn = (message: string, fields?: object) => {
    warnings.push(message);
    const { reason } = (fields ?? {}) as { reason?: string };
    said.push(reason === undefined ? message : `${message}: ${reason}`);
  };
  const log = { ...testCall().log, info, warn };
  const defaults = {};
  const source = {
    names: async () => [...files.keys()].sort(),
    read: async (name: string) => {
      if (hung.has(name)) await new Promise(() => undefined);
      const text = files.get(name);
      await reads.gate;
      if (text === "unreadable") throw new CsiError("failed-precondition", "EIO");
      return text;
    },
    labels: async () => undefined,
  };
  return {
    files,
    /** Names whose file is never read to its end. */
    hung,
    opened,
    warnings,
    said,
    clock,
    /** Reads that have the text already do not end before. */
    reads,
    connections: new Connections(
      source,
      async () => open,
      () => defaults,
      timeout,
      log,
      () => clock.now,
    ),
  };
}

const nameOf = async (connection: Connection) => connection.name;

test("an equal file is opened once; a changed one takes effect at the next call", async () => {
  const { files, opened, connections } = world();
  files.set("c", "one");
  await Promise.all(Array.from({ length: 20 }, () => connections.use("c", "refuse", nameOf)));
  expect(opened.map(each => each.text)).toEqual(["one"]);
  files.set("c", "two");
  await connections.use("c", "retry", nameOf);
  expect(opened.map(each => each.text)).toEqual(["one", "two"]);
  expect(opened[0]?.memory.closed).toBe(1);
});

test("a driver is never closed under a running call", async () => {
  const { files, opened, connections } = world();
  files.set("c", "one");
  const gate = Promise.withResolvers<void>();
  const running = connections.use("c", "refuse", () => gate.promise);
  await Bun.sleep(0);
  files.set("c", "two");
  await connections.use("c", "refuse", nameOf);
  expect(opened[0]?.memory.closed).toBe(0);
  gate.resolve();
  await running;
  expect(opened[0]?.memory.closed).toBe(1);
});

test("a file that becomes invalid leaves the last valid connection in service and is logged once", async () => {
  const { files, warnings, opened, connections } = world();
  files.set("c", "one");
  await connections.use("c", "refuse", nameOf);
  files.set("c", "bad yaml");
  for (let i = 0; i < 5; i++) expect(await connections.use("c", "refuse", nameOf)).toBe("c");
  expect(warnings).toHaveLength(1);
  expect(opened[0]?.memory.closed).toBe(0);
  files.set("c", "one");
  await connections.use("c", "refuse", nameOf);
  expect(opened).toHaveLength(1);
});

test("a file that becomes unreadable leaves the last valid connection in service and is logged once", async () => {
  const { files, warnings, opened, connections } = world();
  files.set("c", "one");
  await connections.use("c", "refuse", nameOf);
  files.set("c", "unreadable");
  for (const origin of ["refuse", "retry"] as const) expect(await connections.use("c", origin, nameOf)).toBe("c");
  expect(warnings).toHaveLength(1);
  files.set("c", "two");
  await connections.use("c", "retry", nameOf);
  expect(opened.map(each => each.memory.closed)).toEqual([1, 0]);
});

test.each([
  ["refuse", "bad", "failed-precondition"],
  ["retry", "bad", "unavailable"],
  ["refuse", "unreadable", "failed-precondition"],
  ["retry", "unreadable", "unavailable"],
  ["refuse", undefined, "failed-precondition"],
  ["retry", undefined, "unavailable"],
] as const)("a connection named by a %s whose file is %p answers %s", async (origin, text, code) => {
  const { files, connections } = world();
  if (text !== undefined) files.set("c", text);
  await expect(connections.use("c", origin, nameOf)).rejects.toMatchObject({ code });
});

test.each(["../x", "a/b", "..", "", "a b", "x".repeat(300)])("%p is never looked up as a connection", async name => {
  const { connections } = world();
  await expect(connections.use(name, "refuse", nameOf)).rejects.toMatchObject({ code: "invalid-argument" });
});

test("names of object members are ordinary names", async () => {
  const { connections } = world();
  await expect(connections.use("constructor", "refuse", nameOf)).rejects.toMatchObject({ code: "failed-precondition" });
});

test("a connection whose file is removed is closed after its last call", async () => {
  const { files, opened, connections } = world();
  files.set("c", "one");
  await connections.use("c", "refuse", nameOf);
  files.delete("c");
  await expect(connections.use("c", "retry", nameOf)).rejects.toMatchObject({ code: "unavailable" });
  expect(opened[0]?.memory.closed).toBe(1);
});

test("a file must not hand existing volumes to a driver of another family", async () => {
  const { files, warnings, connections } = world();
  files.set("c", "family:a");
  await connections.use("c", "refuse", nameOf);
  files.set("c", "family:b");
  expect(await connections.use("c", "refuse", async c => c.family)).toBe("a");
  expect(warnings).toHaveLength(1);
});

test("cacheTimeout none closes a connection after each call, idle after a time without calls", async () => {
  const none = world({ kind: "none" });
  none.files.set("c", "one");
  await none.connections.use("c", "refuse", nameOf);
  await none.connections.use("c", "refuse", nameOf);
  expect(none.opened.map(each => each.memory.closed)).toEqual([1, 1]);

  const idle = world({ kind: "idle", ms: 20 });
  idle.files.set("c", "one");
  await idle.connections.use("c", "refuse", nameOf);
  const until = Date.now() + 30_000;
  while (idle.opened[0]?.memory.closed === 0 && Date.now() < until) await Bun.sleep(5);
  expect(idle.opened[0]?.memory.closed).toBe(1);
});

test("while a file changes between valid and invalid, each of a thousand calls uses a valid one", async () => {
  const { files, connections } = world();
  files.set("c", "v0");
  await connections.use("c", "refuse", nameOf);
  const calls: Promise<string>[] = [];
  for (let i = 0; i < 1000; i++) {
    if (i % 10 === 0) files.set("c", i % 20 === 0 ? "bad" : `v${i}`);
    calls.push(connections.use("c", "retry", c => Bun.sleep(0).then(() => c.name)));
    if (i % 7 === 0) await Bun.sleep(0);
  }
  expect(new Set(await Promise.all(calls))).toEqual(new Set(["c"]));
});

test("a survey logs each change of a connection's state once, with the reason", async () => {
  const { files, said, connections } = world();
  const survey = async () => {
    const from = said.length;
    for (const _ of [1, 2]) await connections.survey();
    return said.slice(from).map(line => line.replace(/^connection /, ""));
  };
  files.set("a", "one");
  files.set("b", "bad from the start");
  expect(await survey()).toEqual([
    '"a": file accepted',
    expect.stringMatching(/^"b" is out of service: .* seen since the start.*: line 1: bad from the start$/),
  ]);
  files.set("a", "two");
  expect(await survey()).toEqual(['"a": changed file accepted']);
  files.set("a", "bad now");
  expect(await survey()).toEqual([expect.stringMatching(/^"a" is degraded: .*last valid.*: line 1: bad now$/)]);
  files.set("a", "unreadable");
  expect(await survey()).toEqual([expect.stringMatching(/^"a" is degraded: .*: EIO$/)]);
  files.set("a", "two");
  files.set("b", "one");
  expect(await survey()).toEqual(['"a": file accepted again', '"b": file accepted now']);
  files.delete("a");
  expect(await survey()).toEqual([expect.stringMatching(/^"a" is gone: .*UNAVAILABLE/)]);
  files.set("a", "two");
  expect(await survey()).toEqual(['"a": file is back and accepted']);
});

test("a change is logged once by a call or a survey, and a name that never had a file is not logged", async () => {
  const { files, said, connections } = world();
  files.set("a", "one");
  await connections.use("a", "refuse", nameOf);
  await connections.use("misspelt", "refuse", nameOf).catch(() => undefined);
  await connections.survey();
  files.delete("a");
  await connections.use("a", "retry", nameOf).catch(() => undefined);
  await connections.survey();
  expect(said).toEqual(['connection "a": file accepted', expect.stringMatching(/^connection "a" is gone/)]);
});

test.each([{ kind: "none" }, { kind: "idle", ms: 1 }] as const)(
  "the last valid file is used even if its connection was closed by cacheTimeout %p",
  async timeout => {
    const { files, opened, connections } = world(timeout);
    files.set("c", "one");
    await connections.survey();
    const until = Date.now() + 30_000;
    while (opened[0]?.memory.closed === 0 && Date.now() < until) await Bun.sleep(2);
    expect(opened[0]?.memory.closed).toBe(1);
    files.set("c", "bad");
    expect(await connections.use("c", "retry", nameOf)).toBe("c");
    expect(opened.map(each => each.text)).toEqual(["one", "one"]);
    files.delete("c");
    await connections.survey();
    files.set("c", "bad");
    await expect(connections.use("c", "retry", nameOf)).rejects.toMatchObject({ code: "unavailable" });
  },
);

test("a survey neither reopens idle connections nor keeps them open", async () => {
  const { files, opened, connections } = world({ kind: "none" });
  files.set("c", "one");
  for (let i = 0; i < 5; i++) await connections.survey();
  expect(opened.map(each => each.memory.closed)).toEqual([1]);
});

test("files that hang do not delay the survey of others", async () => {
  const { files, said, connections, hung } = world();
  for (let i = 0; i < 20; i++) {
    files.set(`a${i}`, "one");
    hung.add(`a${i}`);
  }
  files.set("b", "one");
  void connections.survey();
  const until = Date.now() + 30_000;
  while (said.length === 0 && Date.now() < until) await Bun.sleep(1);
  expect(said).toEqual(['connection "b": file accepted']);
});

test("a slow read of an old file does not replace the connection of the new one", async () => {
  const { files, opened, reads, connections } = world();
  files.set("c", "old");
  await connections.use("c", "retry", nameOf);
  const slow = Promise.withResolvers<void>();
  reads.gate = slow.promise;
  const late = connections.use("c", "retry", nameOf);
  reads.gate = Promise.resolve();
  files.set("c", "new");
  await connections.use("c", "retry", nameOf);
  slow.resolve();
  await late;
  expect(opened.map(({ text }) => text)).toEqual(["old", "new"]);
  expect(opened.map(({ memory }) => memory.closed)).toEqual([1, 0]);
});

test("a removed connection is forgotten an hour after the last call that asked for it", async () => {
  const { files, clock, said, connections } = world();
  files.set("c", "one");
  await connections.use("c", "retry", nameOf);
  files.delete("c");
  const hour = 3_600_000;
  const seen = () => connections.seen().map(({ name, state }) => `${name} ${state}`);
  await connections.survey();
  clock.now = hour - 1;
  expect(seen()).toEqual(["c gone"]);
  await connections.use("c", "retry", nameOf).catch(() => {});
  clock.now = 2 * hour - 2;
  await connections.survey();
  expect(seen()).toEqual(["c gone"]);
  clock.now = 2 * hour - 1;
  expect(seen()).toEqual([]);
  expect(said.at(-1)).toContain("is forgotten");
  // Its volumes may still be there, so what is asked for them stays a call to repeat.
  await expect(connections.use("c", "retry", nameOf)).rejects.toMatchObject({ code: "unavailable" });
  expect(seen()).toEqual([]);
  files.set("c", "one");
  await connections.use("c", "retry", nameOf);
  expect(seen()).toEqual(["c good"]);
});

test("a class whose connection was removed answers UNAVAILABLE for an hour, since a volume may have been begun", async () => {
  const { files, clock, connections } = world();
  const code = () => connections.use("c", "refuse", nameOf).catch((error: CsiError) => error.code);
  expect(await code()).toBe("failed-precondition");
  files.set("c", "bad from the start");
  expect(await code()).toBe("failed-precondition");
  files.set("c", "one");
  expect(await code()).toBe("c");
  for (const text of [undefined, "bad now", undefined]) {
    if (text === undefined) files.delete("c");
    else files.set("c", text);
    expect(await code()).toBe("unavailable");
  }
  clock.now = 3_600_000;
  expect(await code()).toBe("failed-precondition");
});

import { expect, test } from "bun:test";
import { pause } from "../waiting.ts";
import { hour, nameOf, filesWorld as world } from "./files-world.ts";

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

test.each(["../x", "a/b", "..", "", "a b", "x".repeat(300)])("%p is never looked up as a connection", async name => {
  const { connections } = world();
  await expect(connections.use(name, "refuse", nameOf)).rejects.toMatchObject({ code: "invalid-argument" });
});

test("names of object members are ordinary names", async () => {
  const { clock, connections } = world();
  clock.now = hour;
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
  while (idle.opened[0]?.memory.closed === 0 && Date.now() < until) await pause(5);
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
    while (opened[0]?.memory.closed === 0 && Date.now() < until) await pause(2);
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
  while (said.length === 0 && Date.now() < until) await pause(1);
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

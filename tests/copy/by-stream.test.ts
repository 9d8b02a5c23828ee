import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { transfer } from "../../lib/copies/stream-pipe.ts";
import { copyByStream, type StreamWork } from "../../lib/copies/zfs-send.ts";
import type { Code, CsiError } from "../../lib/core/errors.ts";
import { localRunner } from "../../lib/io/local.ts";
import { localHost } from "../../lib/io/local-host.ts";
import type { StorageHost } from "../../lib/io/script.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { calm, hosts, leadsTo, until } from "../io/ssh/rig.ts";
import { freePort, type Sshd, startSshd } from "../io/ssh/sshd.ts";
import {
  childrenOf,
  type FileStorage,
  fileStorage,
  type Programs,
  processes,
  receive,
  sendSlowly,
} from "./stream-rig.ts";

const opened = hosts();
let sshds: readonly Sshd[] = [];
let a: StorageHost;
let b: StorageHost;
let noisy: StorageHost;
const here = localHost(localRunner({ env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } }));
const made: FileStorage[] = [];
let before = 0;
/** What other files of this run have left to their end. */
let others: ReadonlySet<number> = new Set();
/** What processes have left that were killed. */
let earlierPipes: ReadonlySet<string> = new Set();

beforeAll(async () => {
  const profile = '#!/bin/sh\necho welcome\nexec /bin/sh "$@"\n';
  sshds = await Promise.all([startSshd(), startSshd(), startSshd({ text: profile })]);
  const [one, two, three] = sshds.map(({ settings }) => opened.hosts.lease(settings()).value);
  if (!one || !two || !three) throw new Error("three hosts");
  [a, b, noisy] = [one, two, three];
  // The folders and sockets of the logins exist from the first one on.
  for (const host of [a, b, noisy]) await (await host.child?.(["true"], {}, calm))?.ended;
  others = new Set(leftOver().map(({ pid }) => pid));
  before = descriptors();
  earlierPipes = new Set(pipes());
});
afterAll(async () => {
  await opened.hosts.close();
  await Promise.all(sshds.map(({ stop }) => stop()));
});
afterEach(async () => {
  await until("nothing runs any more", () => leftOver().length === 0 && descriptors() <= before);
  // Other runs on this machine make pipes, whose names also exist for a moment.
  const names = pipes().filter(name => !earlierPipes.has(name));
  await until("no name of a pipe stays", () => pipes().every(name => !names.includes(name)));
  await Promise.all(made.splice(0).map(({ remove }) => remove()));
});

/** Descriptors of pipes. Other files of this run have descriptors of other kinds. */
const descriptors = (): number =>
  readdirSync("/proc/self/fd").filter(each => leadsTo(each).includes("csimux-pipe-")).length;

const pipes = (): readonly string[] => readdirSync("/dev/shm").filter(name => name.startsWith("csimux-pipe-"));

/** The children of this process, and the programs of the sessions, beyond the sshds themselves. */
const leftOver = () => {
  const sessions = new Set(sshds.flatMap(({ sessions }) => sessions()));
  const own = new Set(childrenOf(process.pid));
  const daemons = new Set(sshds.map(({ pid }) => pid));
  return processes().filter(({ pid }) => (sessions.has(pid) || own.has(pid)) && !daemons.has(pid) && !others.has(pid));
};

async function storage(from: StorageHost, to: StorageHost, programs?: Programs): Promise<FileStorage> {
  const one = await fileStorage(from, to, programs);
  made.push(one);
  return one;
}

const refused = (work: StreamWork, call = testCall()): Promise<CsiError> =>
  copyByStream(work, call).then(
    () => {
      throw new Error("it did not fail");
    },
    (error: CsiError) => error,
  );

const places = (): readonly (readonly [string, StorageHost, StorageHost, StreamWork["method"]])[] => [
  ["from one host to another", a, b, "zfs-send"],
  ["from this machine to a host", here, b, "zfs-send"],
  ["from a host to this machine", a, here, "zfs-send"],
  ["within a host", b, b, "zfs-send-local"],
  ["within this machine", here, here, "zfs-send-local"],
];
const names = [
  "from one host to another",
  "from this machine to a host",
  "from a host to this machine",
  "within a host",
];

async function world(name: string, programs?: Programs) {
  const place = places().find(each => each[0] === name);
  if (!place) throw new Error(name);
  const [, from, to, method] = place;
  const files = await storage(from, to, programs);
  const source = method === "zfs-send-local" ? { ...files.source, machine: "b" } : files.source;
  return { files, work: (change?: Partial<StreamWork>) => files.work({ method, source, ...change }) };
}

describe.each([...names, "within this machine"])("a stream %s", name => {
  test("arrives as a whole, once", async () => {
    const { files, work } = await world(name);
    expect(await copyByStream(work(), testCall())).toEqual({ basic: false });
    expect(await files.isCopied()).toBe(true);
    expect(await copyByStream(work(), testCall())).toEqual({ basic: false });
    expect(files.opened).toEqual([{ start: { kind: "whole" }, basic: false, isLater: false }]);
  });

  test("ends with its call, and the next one continues it", async () => {
    const { files, work } = await world(name, { send: sendSlowly });
    const call = new AbortController();
    const running = refused(work(), testCall(call.signal));
    await until("a part has arrived", async () => (await files.partBytes()) > 200_000);
    call.abort();
    expect((await running).code).toBe("aborted");
    expect(await copyByStream(work(), testCall())).toEqual({ basic: false });
    expect(await files.isCopied()).toBe(true);
    expect(files.opened[1]?.start.kind).toBe("token");
    expect(files.asked).not.toContain("discard");
  });

  test("that its receiver does not know is sent again in the basic form, and then refused for good", async () => {
    const words = "cannot receive new filesystem stream: pool must be upgraded to receive this stream.";
    const old = `[ -n "$3" ] || { cat >/dev/null; echo "${words}" >&2; exit 1; }; ${receive}`;
    const { files, work } = await world(name, { receive: old });
    expect(await copyByStream(work(), testCall())).toEqual({ basic: true });
    expect(await files.isCopied()).toBe(true);
    const older = await world(name, { receive: `echo "${words}" >&2; exit 1` });
    const error = await refused(older.work());
    expect(error.code).toBe("failed-precondition");
    expect(error.message).toContain(words);
    expect(older.files.opened.map(({ basic }) => basic)).toEqual([false, true]);
  });
});

describe.each(["from one host to another", "within this machine"])("a stream %s names", name => {
  test.each<[string, Programs, Code, string]>([
    [
      "a full target",
      { receive: `echo "$2" >"$1.to"; head -c 99999 >"$1.part"; echo "cannot receive: out of space" >&2; exit 1` },
      "unavailable",
      "free space on the target",
    ],
    [
      "a source without its key",
      { send: () => "echo 'warning: cannot send x: source key must be loaded' >&2; exit 1" },
      "failed-precondition",
      "zfs load-key",
    ],
    [
      "a missing permission",
      { receive: "echo 'cannot receive new filesystem stream: permission denied' >&2; exit 1" },
      "failed-precondition",
      "zfs allow",
    ],
    ["a missing program", { receive: "exec no-such-zfs receive" }, "failed-precondition", "install ZFS"],
    [
      "a sender that fails in the middle",
      { send: () => 'head -c 1000000 "$1"; echo "cannot send: I/O error" >&2; exit 1' },
      "unavailable",
      "cannot send: I/O error",
    ],
    [
      "a receiver that fails in the middle",
      { receive: `echo "$2" >"$1.to"; head -c 1000000 >"$1.part"; echo "cannot receive: I/O error" >&2; exit 1` },
      "unavailable",
      "cannot receive: I/O error",
    ],
    ["a sender that ends too early", { send: () => 'head -c 1000000 "$1"' }, "unavailable", "incomplete stream"],
    ["a receiver that only says so", { receive: "cat >/dev/null" }, "unavailable", "not the whole snapshot"],
    ["a program that a signal ends", { send: () => "kill -9 $$" }, "unavailable", "sending"],
  ])("%s", async (_, programs, code, words) => {
    const { files, work } = await world(name, programs);
    const error = await refused(work());
    expect(error.message).toContain(words);
    expect(error.message).toStartWith('copying "tank/a@snapshot" to volume "pvc-1": ');
    expect(error.code).toBe(code);
    expect(await files.isCopied()).toBe(false);
  });
});

test("a later pass starts at the earlier snapshot, and its form is never changed", async () => {
  const files = await storage(here, here, {
    receive: "echo 'stream has unsupported feature, feature flags = 4' >&2; exit 1",
  });
  const earlier = { name: "tank/a@before", proof: "7" };
  const target = { ...files.target, state: async () => ({ kind: "whole", proof: "7" }) as const };
  const error = await refused(files.work({ earlier, target }));
  expect(error.code).toBe("unavailable");
  expect(files.opened).toEqual([{ start: { kind: "since", snapshot: earlier }, basic: false, isLater: true }]);
});

test("a target that holds a foreign snapshot is left as it is", async () => {
  const files = await storage(here, here);
  const target = { ...files.target, state: async () => ({ kind: "whole", proof: "8" }) as const };
  expect((await refused(files.work({ target }))).code).toBe("failed-precondition");
  expect([files.opened, files.asked]).toEqual([[], []]);
});

test("the part of another snapshot is discarded, and so is a token that the source does not know any more", async () => {
  const files = await storage(here, here);
  await writeFile(join(files.folder, "stored.part"), "something else");
  await writeFile(join(files.folder, "stored.to"), "another proof");
  await copyByStream(files.work(), testCall());
  expect([await files.isCopied(), files.asked]).toEqual([true, ["discard"]]);
  const gone =
    "[ $2 = 0 ] || { echo \"cannot resume send: 'tank/a' used in the initial send no longer exists\" >&2; exit 1; }; ";
  const other = await storage(here, here, { send: () => `${gone}cat "$1"` });
  await writeFile(join(other.folder, "stored.part"), "something");
  await writeFile(join(other.folder, "stored.to"), other.snapshot.proof);
  await copyByStream(other.work(), testCall());
  expect([await other.isCopied(), other.asked]).toEqual([true, ["discard"]]);
  expect(other.opened.map(({ start }) => start.kind)).toEqual(["token", "whole"]);
});

test("a program that a dead process left receiving is ended first", async () => {
  const files = await storage(a, b);
  const left = await b.child?.(files.target.open("pvc-1", files.snapshot, false).argv, {}, calm);
  await left?.ended.catch(() => {});
  const stuck = await here.child?.(
    ["sh", "-c", 'echo $$ >"$1.pid"; exec 9>"$1.lock"; flock 9; sleep 600', "sh", join(files.folder, "stored")],
    {},
    calm,
  );
  await until("it receives", async () => (await files.target.state("pvc-1", testCall())).kind === "busy");
  await copyByStream(files.work(), testCall());
  expect([await files.isCopied(), files.asked[0]]).toEqual([true, "stop"]);
  await stuck?.end();
});

test("an account that prints at login cannot send, but can receive", async () => {
  const sending = await storage(noisy, b);
  const error = await refused(sending.work());
  expect(error.code).toBe("failed-precondition");
  expect(error.message).toContain('prints at login ("welcome\\n")');
  expect(await sending.target.state("pvc-1", testCall())).toEqual({ kind: "nothing" });
  const receiving = await storage(a, noisy);
  await copyByStream(receiving.work(), testCall());
  expect(await receiving.isCopied()).toBe(true);
});

test("a host that does not answer is another attempt's, and the other end does not stay", async () => {
  const { hosts: own } = hosts();
  const settings = sshds[0]?.settings({ port: await freePort() });
  if (!settings) throw new Error("no sshd");
  const { value: dead } = own.lease(settings);
  for (const files of [await storage(dead, b), await storage(a, dead)]) {
    const error = await refused(files.work());
    expect([error.code, error.message]).toEqual(["unavailable", expect.stringContaining("connection refused")]);
  }
  await own.close();
});

test("what can never work is refused before anything is started", async () => {
  const files = await storage(here, here);
  const volume = { ...files.target, format: "zfs:volume" } as const;
  expect((await refused(files.work({ target: volume }))).code).toBe("invalid-argument");
  expect((await refused(files.work({ method: "zfs-send-local" }))).code).toBe("invalid-argument");
  expect((await refused(files.work({ snapshot: { ...files.snapshot, proof: "" } }))).code).toBe("invalid-argument");
  const { child: _, ...without } = here;
  const other = await storage(here, without);
  expect((await refused(other.work())).code).toBe("failed-precondition");
  expect(files.opened).toEqual([]);
});

test("a stream in which no byte moves is ended, and one that is slow is not", async () => {
  const limits = { stallMs: 500, graceMs: 300 };
  const ends = (from: string, to: string) =>
    [
      { host: a, argv: ["sh", "-c", from] as const },
      { host: b, argv: ["sh", "-c", to] as const },
    ] as const;
  const stuck = await transfer(
    ...ends("head -c 300000 /dev/zero; sleep 600", "cat >/dev/null"),
    () => {},
    testCall(),
    limits,
  );
  expect([stuck.isStalled, stuck.isComplete]).toEqual([true, false]);
  const seen: bigint[] = [];
  const slow = "i=0; while [ $i -lt 20 ]; do head -c 200000 /dev/zero; sleep 0.1; i=$((i + 1)); done";
  const fine = await transfer(...ends(slow, "cat >/dev/null"), bytes => seen.push(bytes), testCall(), limits);
  expect(fine).toEqual({ isComplete: true, failures: [], isStalled: false });
  expect(seen.length).toBeGreaterThan(2);
  expect(Number(seen.at(-1))).toBeWithin(1_000_000, 4_300_000);
  const idle = await transfer(...ends("sleep 600", "exit 3"), () => {}, testCall(), { ...limits, stallMs: 60_000 });
  expect(idle.failures.map(({ task }) => task)).toEqual(["receiving", "sending"]);
});

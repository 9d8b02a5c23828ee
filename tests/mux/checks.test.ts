import { describe, expect, test } from "bun:test";
import { isHealthy } from "../../cmd/status/problems.ts";
import { statusText } from "../../cmd/status/text.ts";
import type { Call } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { CallTracker } from "../../lib/observe/call-tracker.ts";
import { openMetrics } from "../../lib/observe/metrics.ts";
import { statusOf } from "../../lib/observe/status.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { pause } from "../waiting.ts";
import { muxWorld } from "./world.ts";

const facts = { name: "c.example", version: "1", commit: "x", modes: ["controller"], node: undefined, started: 0 };

/** A router over one storage whose check does as `answer` says, with the lines of its log. */
function world(patience?: { readonly look: number; readonly capacity: number }) {
  const mux = muxWorld(["nas"], patience);
  const lines: string[] = [];
  const line = (text: string) => void lines.push(text);
  const log: Call["log"] = { ...testCall().log, info: line, warn: line, error: line };
  const call = { ...testCall(), log };
  let answer: () => Promise<void> = async () => {};
  let asked = 0;
  mux.memory("nas").check = async () => {
    asked++;
    await answer();
  };
  const status = () => statusOf(facts, { mux: mux.overview(new Map()) }, new CallTracker());
  return {
    ...mux,
    asked: () => asked,
    answers: (now: () => Promise<void>) => {
      answer = now;
    },
    /** The file is read, as by any call; no storage is asked. */
    opened: () => mux.volumes.delete("v:nas/none", call).catch(() => {}),
    round: () => mux.checkHealth(call),
    checkNew: () => mux.checkNew(call),
    status,
    storage: () => status().connections[0]?.storage,
    said: () => lines.splice(0),
    unknown: async () => /health_unknown\{[^}]*\} (\d)/.exec(await openMetrics(() => 0).text(status()))?.[1],
  };
}

const fails = (code: CsiError["code"], message: string) => async () => {
  throw new CsiError(code, message);
};
/** A storage system that answers; calls fail with "unavailable", so that they are retried. */
const refuses = (refused: NonNullable<CsiError["refused"]>, message: string) => async () => {
  throw new CsiError("unavailable", message, { refused });
};
/** Stands for a storage that never answers. */
const hangs = () => new Promise<void>(() => {});

test("a storage system is checked soon after its file was opened or changed, even if no call uses it", async () => {
  const { checkNew, opened, storage, said, asked, edit, unknown } = world();
  await opened();
  expect([storage()?.state, await unknown()]).toEqual(["not-checked", "1"]);
  for (const _ of [1, 2]) await checkNew();
  expect([storage()?.state, asked(), await unknown()]).toEqual(["good", 1, "0"]);
  expect(said()).toEqual(['connection "nas": its storage was checked and can be used']);
  edit("nas");
  await opened();
  expect([storage()?.state, await unknown()]).toEqual(["not-checked", "1"]);
  await checkNew();
  expect([storage()?.state, asked(), said()]).toEqual(["good", 2, []]);
});

test("a check that began before the file was changed answers for the old file only", async () => {
  const { answers, round, opened, storage, said, edit, asked } = world();
  const { promise, reject } = Promise.withResolvers<void>();
  answers(() => promise);
  const old = round();
  while (asked() === 0) await pause(1);
  edit("nas");
  answers(async () => {});
  await opened();
  await round();
  expect([storage()?.state, asked()]).toEqual(["good", 2]);
  reject(new CsiError("unavailable", "no route"));
  await old;
  expect([storage()?.state, said()]).toEqual(["good", ['connection "nas": its storage was checked and can be used']]);
});

test("findings about the storage of an earlier file are not those of the present one", async () => {
  const { round, opened, status, edit, memory, asked } = world({ look: 5000, capacity: 50 });
  const { promise, resolve } = Promise.withResolvers<void>();
  const finding = { reason: "PoolDegraded", message: "half of it is gone" } as const;
  const nas = memory("nas");
  nas.inspection = promise;
  nas.findings = { storage: [finding], volumes: new Map(), example: undefined };
  const old = round();
  while (nas.lookedAt === 0) await pause(1);
  edit("nas");
  nas.inspection = Promise.resolve();
  nas.findings = { storage: [], volumes: new Map(), example: undefined };
  await opened();
  const now = round();
  while (asked() < 2) await pause(1);
  // The second round gets from its check to its look.
  for (let turn = 0; turn < 100; turn++) await Promise.resolve();
  resolve();
  await Promise.all([old, now]);
  expect(status().health).toEqual([]);
});

const situations = [
  ["is dead", fails("unavailable", "no route"), "unreachable", "no route", "cannot be reached"],
  ["hangs in every call", hangs, "unreachable", "has not answered", "cannot be reached"],
  ["refuses the login", fails("unauthenticated", "the key is wrong"), "login-refused", "key", "refuses the login"],
  ["lacks a right", fails("permission-denied", "no role"), "login-refused", "no role", "refuses the login"],
  ["has no such pool", fails("failed-precondition", "no pool tank"), "unusable", "tank", "cannot be used"],
  ["has a pool that is not imported", refuses("unusable", "import tank"), "unusable", "tank", "cannot be used"],
  ["refuses an account", refuses("login-refused", "wrong password"), "login-refused", "wrong", "refuses the login"],
] as const;

describe.each(["at the start", "later"] as const)("a storage that, %s,", when => {
  test.each(situations)(
    "%s is reported by log, status and metrics after one round, and so is its return",
    async (...row) => {
      const [, answer, state, reason, words] = row;
      const { answers, round, storage, said, unknown, status } = world();
      if (when === "later") await round();
      said();
      const { promise, resolve } = Promise.withResolvers<void>();
      answers(answer === hangs ? () => promise : answer);
      await round();
      expect(said()).toEqual([`connection "nas": its storage ${words}`]);
      expect(storage()).toMatchObject({ state, at: expect.any(String), reason: expect.stringContaining(reason) });
      expect(status().connections[0]?.healthProblem).toContain(reason);
      expect(statusText(status(), false)).toContain(reason);
      expect([isHealthy(status()), await unknown()]).toEqual([false, "1"]);
      await round();
      expect(said()).toEqual([]);
      answers(async () => {});
      resolve();
      await round();
      expect(said()).toEqual(['connection "nas": its storage can be used again']);
      expect(storage()).toMatchObject({ state: "good", reason: undefined });
      expect(statusText(status(), false)).toContain("1 connection: 1 good");
      expect([isHealthy(status()), await unknown()]).toEqual([true, "0"]);
    },
  );
});

test("a storage system that does not answer its check gets no other request; one that answers with an error does", async () => {
  const { answers, round, memory } = world();
  answers(fails("unavailable", "no route"));
  await round();
  expect(memory("nas").lookedAt).toBe(0);
  answers(fails("failed-precondition", "no program"));
  await round();
  expect(memory("nas").lookedAt).toBe(1);
});

test("a failed check of the health says as much as a failed check of the storage system", async () => {
  const { round, memory, storage, unknown } = world();
  memory("nas").fail.health = new CsiError("unavailable", "no list of pools");
  await round();
  expect(storage()).toMatchObject({ state: "unreachable", reason: "no list of pools" });
  expect(await unknown()).toBe("1");
  memory("nas").fail = {};
  await round();
  expect([storage()?.state, await unknown()]).toEqual(["good", "0"]);
});

test("the storage system of a removed file is not reported", async () => {
  const { up, round, opened, storage, unknown } = world();
  await round();
  up.delete("nas");
  await opened();
  expect([storage(), await unknown()]).toEqual([undefined, undefined]);
});

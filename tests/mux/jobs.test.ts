import { describe, expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { TryLocks } from "../../lib/core/locks.ts";
import { Jobs } from "../../lib/mux/jobs.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { failure } from "./world.ts";

test("equal calls join one job; a call with other arguments is refused if that does not end soon", async () => {
  const jobs = new Jobs(10);
  const gate = Promise.withResolvers<string>();
  let runs = 0;
  const work = () => {
    runs++;
    return gate.promise;
  };
  const calls = Array.from({ length: 50 }, () => jobs.run("create c/v", "1", testCall(), work));
  await expect(jobs.run("create c/v", "2", testCall(), work)).rejects.toMatchObject({ code: "aborted" });
  gate.resolve("made");
  expect(new Set(await Promise.all(calls))).toEqual(new Set(["made"]));
  expect(runs).toBe(1);
});

describe("a call waits for an operation that is in its way", () => {
  const inTheWay: Readonly<Record<string, (jobs: Jobs, locks: TryLocks, end: Promise<void>) => Promise<unknown>>> = {
    "of the same job with other arguments": (jobs, _, end) => jobs.run("k", "other", testCall(), () => end),
    "that holds its lock": (_, locks, end) => locks.hold(["l"], () => end),
    "that reads what it wants to change": (_, locks, end) => {
      const held = locks.lock([], ["l"]);
      return end.then(() => held[Symbol.dispose]());
    },
  };
  const world = (what: string, waitMs?: number) => {
    const [jobs, locks, gate] = [new Jobs(waitMs), new TryLocks(), Promise.withResolvers<void>()];
    void inTheWay[what]?.(jobs, locks, gate.promise);
    let runs = 0;
    const run = (signal?: AbortSignal) =>
      jobs.run("k", "", testCall(signal), () => locks.hold(["l"], async () => ++runs));
    return { run, gate, runs: () => runs };
  };

  test.each(Object.keys(inTheWay))("%s, and joins its repetition", async what => {
    const { run, gate } = world(what);
    const both = [run(), run()];
    await Bun.sleep(0);
    gate.resolve();
    expect(await Promise.all(both)).toEqual([1, 1]);
  });

  test.each(Object.keys(inTheWay))("%s, until its caller leaves: then it does nothing", async what => {
    const { run, gate, runs } = world(what);
    const client = new AbortController();
    const outcome = failure(run(client.signal));
    await Bun.sleep(0);
    client.abort();
    expect((await outcome)?.code).toBe("deadline-exceeded");
    gate.resolve();
    await Bun.sleep(0);
    expect(runs()).toBe(0);
  });

  test.each(Object.keys(inTheWay))("%s, for a limited time", async what => {
    expect((await failure(world(what, 10).run()))?.message).toMatch(/another operation on "[kl]" is in progress/);
  });
});

test("the work continues after its caller has left, and a retry joins it", async () => {
  const jobs = new Jobs();
  const gate = Promise.withResolvers<number>();
  const client = new AbortController();
  let seen: AbortSignal | undefined;
  const first = jobs.run("k", "", testCall(client.signal), own => {
    seen = own.signal;
    return gate.promise;
  });
  await Promise.resolve();
  client.abort();
  await expect(first).rejects.toMatchObject({ code: "deadline-exceeded" });
  expect(seen?.aborted).toBe(false);
  const again = jobs.run<number>("k", "", testCall(), async () => -1);
  gate.resolve(7);
  expect(await again).toBe(7);
});

test("a failure reaches every caller, and the next call starts another job", async () => {
  const jobs = new Jobs();
  const fail = () => Promise.reject(new Error("no"));
  const both = await Promise.allSettled([jobs.run("k", "", testCall(), fail), jobs.run("k", "", testCall(), fail)]);
  expect(both.map(result => result.status)).toEqual(["rejected", "rejected"]);
  expect(await jobs.run("k", "", testCall(), async () => 1)).toBe(1);
});

test("stopping aborts the work and waits for it to end", async () => {
  const jobs = new Jobs();
  const begun = Promise.withResolvers<void>();
  let ended = false;
  const call = jobs.run("k", "", testCall(), async own => {
    begun.resolve();
    await new Promise(resolve => own.signal.addEventListener("abort", resolve));
    ended = true;
    throw own.signal.reason;
  });
  const outcome = call.catch((error: unknown) => error);
  await begun.promise;
  expect(await jobs.stop(60_000)).toEqual([]);
  expect(ended).toBe(true);
  expect(await outcome).toMatchObject({ code: "unavailable" });
  const late = await jobs.run("k", "", testCall(), async () => 1).catch((error: unknown) => error);
  expect(late).toMatchObject({ code: "unavailable" });
});

test.each([
  ["unavailable", "csimux is stopping"],
  ["aborted", "the client has cancelled the call or gone away"],
] as const)("a caller that leaves because of %s gets that reason", async (code, message) => {
  const jobs = new Jobs();
  const client = new AbortController();
  const waiting = jobs.run("k", "", testCall(client.signal), () => new Promise(() => undefined));
  const outcome = waiting.catch((error: unknown) => error);
  await Promise.resolve();
  client.abort(new CsiError(code, message));
  expect(await outcome).toMatchObject({ code, message });
});

test("a call that has already ended starts nothing", async () => {
  const jobs = new Jobs();
  let runs = 0;
  const gone = AbortSignal.abort(new CsiError("deadline-exceeded", "the deadline of the call has passed"));
  const call = jobs.run("k", "", testCall(gone), async () => runs++);
  expect(await call.catch((error: unknown) => error)).toMatchObject({ code: "deadline-exceeded" });
  await new Promise(resolve => setImmediate(resolve));
  expect([runs, jobs.running()]).toEqual([0, []]);
});

test("stopping does not wait for work that ignores its signal, and returns its key", async () => {
  const jobs = new Jobs();
  const call = jobs.run("copy of v", "", testCall(AbortSignal.timeout(1)), () => new Promise(() => undefined));
  await call.catch(() => {});
  expect(await jobs.stop(10)).toEqual(["copy of v"]);
});

import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import { ExportCache } from "../../../lib/drivers/zfs/cli/nfs.ts";
import type { StorageHost } from "../../../lib/io/script.ts";

const never = new AbortController().signal;
const output = (stdout: string) => ({ stdout, stderr: "", exitCode: 0 });

beforeEach(() => void jest.useFakeTimers({ now: 1_000_000_000 }));
afterEach(() => void jest.useRealTimers());

/** A host whose exports others change: `last` says when they were flushed last, in seconds after its clock. */
function hostWith(last: () => number | undefined) {
  const flushes: number[] = [];
  const host = {
    async script({ steps }: { readonly steps: readonly { readonly name: string }[] }) {
      const now = Math.floor(Date.now() / 1000);
      if (steps.some(({ name }) => name === "flush")) flushes.push(Date.now());
      const ahead = last();
      const texts = new Map([
        ["last", ahead === undefined ? "" : `${now + ahead}\n`],
        ["clock", `${now}\n`],
      ]);
      return new Map(steps.map(({ name }) => [name, output(texts.get(name) ?? "")]));
    },
  };
  return { host: host as unknown as StorageHost, flushes };
}

/** Lets so many milliseconds go by, and all work that is due in them. */
async function pass(ms: number): Promise<void> {
  for (let gone = 0; gone < ms; gone += 100) {
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    jest.advanceTimersByTime(100);
  }
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

test("an export cache whose last flush is over is flushed immediately", async () => {
  const { host, flushes } = hostWith(() => -2);
  await new ExportCache().of(host, []).flushed(never);
  expect(flushes).toEqual([1_000_000_000]);
});

test("exports that change continuously are flushed after ten seconds, once for all waiting calls", async () => {
  const { host, flushes } = hostWith(() => 5);
  const cache = new ExportCache().of(host, []);
  const waiting = [cache.flushed(never), cache.flushed(never)];
  await pass(9_900);
  expect(flushes).toEqual([]);
  await pass(400);
  expect(flushes.length).toBe(1);
  await Promise.all(waiting);
});

test("a call that stops waiting for a flush leaves it to the others", async () => {
  const { host, flushes } = hostWith(() => 3);
  const cache = new ExportCache().of(host, []);
  const stop = new AbortController();
  const first = cache.flushed(stop.signal).catch((error: Error) => error.message);
  const second = cache.flushed(never);
  stop.abort(new Error("enough"));
  await pass(100);
  expect(await first).toBe("enough");
  await pass(11_000);
  await second;
  expect(flushes.length).toBe(1);
});

test("where the time of the last flush is unknown, a flush is delayed by two seconds", async () => {
  const { host, flushes } = hostWith(() => undefined);
  const flushed = new ExportCache().of(host, []).flushed(never);
  await pass(2_000);
  expect(flushes).toEqual([]);
  await pass(300);
  await flushed;
  expect(flushes.length).toBe(1);
});

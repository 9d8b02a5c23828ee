import { describe, expect, test } from "bun:test";
import { progressText, Rate } from "../../lib/copies/progress.ts";

const gib = 1n << 30n;
const copy = { name: "pvc-1", from: "a", method: "zfs-send", rate: 0n, ahead: undefined, fault: "" } as const;

describe("the progress of a copy", () => {
  test.each([
    ["nothing has arrived", { done: 0n, total: 0n }, 'volume "pvc-1" is being copied from connection "a" (zfs-send)'],
    [
      "it runs",
      { done: 37n * gib, total: 120n * gib, rate: 112n << 20n },
      ": 37 of 120 GiB, 112 MiB/s, about 12 min left",
    ],
    ["it has hardly begun", { done: 1536n, total: 0n }, ": 1.5 KiB"],
    ["it has a few bytes", { done: 100n, total: 0n }, ": 100 bytes"],
    ["its size is unknown", { done: 3n * gib, total: 0n }, ": 3.0 GiB"],
    ["it waits", { done: 0n, total: gib, ahead: 2 }, ": queued, 2 copies ahead"],
    ["one is in front", { done: 0n, total: gib, ahead: 1 }, ": queued, 1 copy ahead"],
    [
      "it failed",
      { done: gib, total: 2n * gib, fault: "full" },
      ": 1.0 of 2.0 GiB; last attempt failed, retrying: full",
    ],
  ] as const)("is one sentence when %s", (_, at, text) => {
    expect(progressText({ ...copy, ...at })).toEndWith(text);
  });

  test("has the rate of the last half minute, however often bytes are reported", () => {
    let now = 0;
    const rate = new Rate(() => now);
    expect(rate.perSecond).toBe(0n);
    for (now = 0; now <= 60_000; now++) rate.add(BigInt(now) * 1_000n);
    now = 60_000;
    expect(Number(rate.perSecond)).toBeGreaterThan(990_000);
    expect(Number(rate.perSecond)).toBeLessThanOrEqual(1_000_000);
    rate.add(0n);
    expect(rate.perSecond).toBe(0n);
  });
});

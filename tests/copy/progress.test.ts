import { describe, expect, test } from "bun:test";
import { progressText, Rate } from "../../lib/copies/progress.ts";

const gib = 2 ** 30;
const copy = { from: "a", method: "zfs-send", perSecond: 0 } as const;

describe("the progress of a copy", () => {
  test.each([
    ["nothing has arrived", { done: 0, total: 0 }, 'volume "pvc-1" is being copied from connection "a" (zfs-send)'],
    [
      "it runs",
      { done: 37 * gib, total: 120 * gib, perSecond: 112 * 2 ** 20 },
      ": 37.0 GiB of 120 GiB, 112 MiB/s, about 12m left",
    ],
    ["it has hardly begun", { done: 1536, total: 0 }, ": 1.5 KiB"],
    ["it has a few bytes", { done: 100, total: 0 }, ": 100 B"],
    ["its size is unknown", { done: 3 * gib, total: 0 }, ": 3.0 GiB"],
    ["it waits", { done: 0, total: gib, ahead: 2 }, ": queued, 2 copies ahead"],
    ["one is in front", { done: 0, total: gib, ahead: 1 }, ": queued, 1 copy ahead"],
    [
      "it failed",
      { done: gib, total: 2 * gib, fault: "full" },
      ": 1.0 GiB of 2.0 GiB; last attempt failed, retrying: full",
    ],
  ] as const)("is one sentence when %s", (_, at, text) => {
    expect(progressText("pvc-1", { ...copy, ...at })).toEndWith(text);
  });

  test("has the rate of the last half minute, however often bytes are reported", () => {
    let now = 0;
    const rate = new Rate(() => now);
    expect(rate.perSecond).toBe(0);
    for (now = 0; now <= 60_000; now++) rate.add(BigInt(now) * 1_000n);
    now = 60_000;
    expect(rate.perSecond).toBeGreaterThan(990_000);
    expect(rate.perSecond).toBeLessThanOrEqual(1_000_000);
    rate.add(0n);
    expect(rate.perSecond).toBe(0);
  });
});

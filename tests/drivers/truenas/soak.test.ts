import { expect, test } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { callWith, gib, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { type Double, startDouble } from "../../fakes/truenas/double.ts";
import { pause } from "../../waiting.ts";
import { openOn, type Protocol, parent, remainsOf } from "./rig.ts";

/** Many operations at once on several connections, while sockets are lost and systems restart and are upgraded. */

const operations = Number(process.env["TRUENAS_SOAK"] ?? 300);
const call = callWith();

/** Equal numbers in equal runs (Lehmer, "minimal standard"). */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return below => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
}

const upgrades = [
  [0, "25.10"],
  [1, "25.10"],
  [0, "26.0"],
  [1, "26.0"],
] as const;

/** Bytes of the heap that something still needs. */
function heapBytes(): number {
  Bun.gc(true);
  return process.memoryUsage().heapUsed;
}

/** As the sidecars do: again and again while the answer is that it may be repeated. */
async function persistent<T>(work: () => Promise<T>): Promise<T> {
  for (const until = Date.now() + 100_000; ; await pause(50)) {
    try {
      return await work();
    } catch (error) {
      const again = error instanceof CsiError && ["unavailable", "aborted", "deadline-exceeded"].includes(error.code);
      if (!again || Date.now() > until) throw error;
    }
  }
}

/** One volume's life, some of it several times; answers whether the volume is still there at the end. */
async function life(driver: Driver, name: string, random: (below: number) => number): Promise<boolean> {
  const { id } = await persistent(() => driver.create(volumeOf(name), call));
  if (random(3) === 0) await persistent(() => driver.create(volumeOf(name), call));
  if (random(3) === 0) {
    const { id: snapshot } = await persistent(() => snapshotsOf(driver).create(`of-${name}`, id, {}, call));
    if (random(2) === 0) {
      const source = { kind: "snapshot", id: snapshot } as const;
      const copy = await persistent(() => driver.create(volumeOf(`${name}-copy`, gib, source), call));
      await persistent(() => driver.delete(copy.id, call));
    }
    await persistent(() => snapshotsOf(driver).delete(snapshot, call));
  }
  if (random(4) === 0)
    await persistent(async () => driver.expand?.expand(id, { required: 2n * gib, limit: undefined }, call));
  if (random(5) === 0) return true;
  await persistent(() => driver.delete(id, call));
  return false;
}

async function trouble(
  doubles: readonly Double[],
  random: (below: number) => number,
  over: () => boolean,
): Promise<void> {
  for (let round = 0; !over(); round++) {
    const double = doubles[random(doubles.length)];
    double?.faults.loseOnce(/./, random(2) === 0 ? "before" : "after", random(20));
    if (round % 4 === 3) double?.restart();
    // Each system once from 24.10 to 25.10, and once to 26.
    const upgrade = upgrades[round - 4];
    if (upgrade) doubles[upgrade[0]]?.restart(upgrade[1]);
    // What was asked is not kept: it would be most of the memory.
    for (const each of doubles) each.requests.length = 0;
    // Not more often, in the long run, than the systems let a client log in.
    await pause(round < 8 ? 100 : 4500);
  }
}

test("concurrent work of several connections on failing systems leaves nothing lost, doubled or orphaned", async () => {
  const random = numbers(7);
  const doubles = [
    await startDouble({ version: "24.10", latencyMs: 1 }),
    await startDouble({ version: "24.10", latencyMs: 1 }),
  ] as const;
  const protocols: readonly (readonly [Double, Protocol])[] = [
    [doubles[0], "nfs"],
    [doubles[0], "iscsi"],
    [doubles[1], "smb"],
  ];
  const drivers = protocols.map(([double, protocol], at) =>
    openOn(double, protocol, {
      connection: `c${at}`,
      zfs: { datasetParentName: `${parent}/${protocol}`, detachedSnapshotsDatasetParentName: `tank/k8s/s/${protocol}` },
    }),
  );
  let over = false;
  const troubled = trouble(doubles, random, () => over);
  const kept = drivers.map(() => new Set<string>());
  const lives = Array.from({ length: operations / 4 }, (_, n) => async () => {
    const at = n % drivers.length;
    const driver = drivers[at];
    if (driver && (await life(driver, `pvc-${n}`, random))) kept[at]?.add(`pvc-${n}`);
  });
  const heap: number[] = [];
  const total = lives.length;
  const worker = async () => {
    for (let next = lives.shift(); next; next = lives.shift()) {
      await next();
      if (lives.length % Math.ceil(total / 8) === 0) heap.push(heapBytes());
    }
  };
  await Promise.all(Array.from({ length: 12 }, worker));
  over = true;
  await troubled;
  for (const [at, driver] of drivers.entries()) {
    const ids = await persistent(() => volumeIds(driver));
    expect([...ids].sort()).toEqual([...(kept[at] ?? [])].sort());
    for (const id of ids) await persistent(() => driver.delete(id, call));
  }
  const usual = /^tank\/k8s\/(?:v|s)\/(?:nfs|iscsi|smb)$/;
  for (const double of doubles) expect(remainsOf(double).filter(name => !usual.test(name))).toEqual([]);
  for (const double of doubles) {
    expect(double.version).toBe("26.0");
    expect(double.accounts.logins - double.accounts.restLogins).toBeLessThanOrEqual(double.sockets);
  }
  for (const driver of drivers) await driver.close?.();
  for (const double of doubles) await double.close();
  // The first lives fill caches; what the last ones leave must not be more.
  const [first = 0, last = 0] = [heap[1], heap.at(-1)];
  expect(last - first).toBeLessThan(8 * 2 ** 20);
}, 1_800_000);

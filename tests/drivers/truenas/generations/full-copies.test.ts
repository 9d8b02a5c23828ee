import { describe, expect, test } from "bun:test";
import type { Driver, Source } from "../../../../lib/drivers/driver.ts";
import { callWith, findVolume, gib, snapshotIds, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { repeated } from "../../../contract/second-writer/meeting.ts";
import { recentVersions } from "../../../fakes/truenas/versions.ts";
import { everything, seed } from "../../../sample.ts";
import { type ApiRig, truenasRig } from "../rig.ts";

/** Two controllers make the same full copy, and their requests alternate at random, as those of two processes do. */

const call = callWith();
const rounds = Number(process.env["CSIMUX_FUZZ_RUNS"] ?? (everything ? 300 : 4));
const limitMs = 1000 * Math.max(60, rounds * 4);

/** Numbers from 0 up to 1 that follow from a seed (mulberry32). */
function randomFrom(begin: number): () => number {
  let state = begin;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

type Side = 0 | 1;

/** Two controllers of which one sends a few requests while the other waits. The turn of one that has ended passes to the other. */
function alternating(rig: ApiRig, random: () => number) {
  const sides: readonly Side[] = [0, 1];
  const waiting = sides.map((): (() => void)[] => []);
  const ended = new Set<Side>();
  let left = 0;
  let turn: Side = 0;
  function pass(): void {
    left = Math.ceil(random() * [1, 4, 16][Math.floor(random() * 3)]!);
    const other: Side = turn === 0 ? 1 : 0;
    if (!ended.has(other)) turn = other;
    for (const go of waiting[turn]?.splice(0) ?? []) go();
  }
  pass();
  return sides.map(side => ({
    driver: rig.after(async (): Promise<"run"> => {
      while (turn !== side) await new Promise<void>(go => waiting[side]?.push(go));
      if (--left <= 0) pass();
      return "run";
    }),
    async run<T>(work: (driver: Driver) => Promise<T>, driver: Driver): Promise<T> {
      try {
        return await repeated(() => work(driver), 100);
      } finally {
        ended.add(side);
        if (turn === side) pass();
      }
    },
  }));
}

/** What both answer to the same request. */
const both = <T>(rig: ApiRig, random: () => number, work: (driver: Driver) => Promise<T>): Promise<readonly T[]> =>
  Promise.all(alternating(rig, random).map(({ driver, run }) => run(work, driver)));

describe.each(recentVersions)("on TrueNAS %s", version => {
  test.each(["nfs", "iscsi"] as const)(
    "a full copy over %s that two controllers make stays, both report it, and deletions leave nothing",
    async protocol => {
      const rig = await truenasRig(protocol, { version });
      const random = randomFrom(seed);
      const wrong: unknown[] = [];
      for (let round = 0; round < rounds; round++) {
        const plain = rig.open();
        const source: Source = { kind: "volume", id: (await plain.create(volumeOf("pvc-1"), call)).id };
        const spec = { ...volumeOf("pvc-2", gib, source), parameters: { detachedVolumesFromVolumes: "true" } };
        await rig.write(await plain.create(volumeOf("pvc-1"), call), "content");
        const made = await both(rig, random, driver => driver.create(spec, call).catch(e => { throw e; })).catch(e => String(e.code+" "+e.message));
        const found = await findVolume(plain, "pvc-2");
        const content = found && (await rig.read(found));
        for (const id of ["pvc-2", "pvc-1"]) await repeated(() => plain.delete(id, call));
        const left = await rig.remains();
        if (typeof made === "string" || content !== "content" || left.length) wrong.push([round, made, content, left]);
        if (left.length) break;
      }
      await rig.close();
      expect(wrong).toEqual([]);
    },
    limitMs,
  );
});

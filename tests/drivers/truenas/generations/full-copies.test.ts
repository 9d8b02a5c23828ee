import { describe, expect, test } from "bun:test";
import type { Driver, Source } from "../../../../lib/drivers/driver.ts";
import { callWith, findVolume, gib, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { repeated } from "../../../contract/second-writer/meeting.ts";
import { recentVersions } from "../../../fakes/truenas/versions.ts";
import { everything, seed } from "../../../sample.ts";
import { type ApiRig, refusal, truenasRig } from "../rig.ts";

/**
 * Two controllers make the same full copy, and their requests alternate at random, as those of two processes do. Among 60 interleavings of a version
 * one or two ended, before each destruction was proved by itself, with a volume that had been reported as made and was gone.
 */

const call = callWith();
const rounds = Number(process.env["CSIMUX_FUZZ_RUNS"] ?? (everything ? 300 : 6));
const limitMs = 30_000 + rounds * 3000;

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

/** The answers of two controllers to the same request. One sends a few requests while the other waits, until it has its answer. */
function bothOf<T>(rig: ApiRig, random: () => number, work: (driver: Driver) => Promise<T>): Promise<readonly T[]> {
  const waiting: (() => void)[] = [];
  let left = 0;
  let turn = 0;
  let other: number | undefined = 1;
  function pass(): void {
    left = Math.ceil(random() * 4 ** Math.floor(random() * 3));
    if (other !== undefined) [turn, other] = [other, turn];
    for (const go of waiting.splice(0)) go();
  }
  pass();
  const answer = async (side: number): Promise<T> => {
    const driver = rig.after(async (): Promise<"run"> => {
      while (turn !== side) await new Promise<void>(go => waiting.push(go));
      if (--left <= 0) pass();
      return "run";
    });
    try {
      return await repeated(() => work(driver), 100);
    } finally {
      if (turn === side) pass();
      other = undefined;
    }
  };
  return Promise.all([answer(0), answer(1)]);
}

/** Asks both, and returns what differs from the content that both have reported as copied. */
type Round = (rig: ApiRig, random: () => number, source: string) => Promise<unknown>;

const copiedVolume: Round = async (rig, random, id) => {
  const source: Source = { kind: "volume", id };
  const spec = { ...volumeOf("pvc-2", gib, source), parameters: { detachedVolumesFromVolumes: "true" } };
  const { code, message } = await refusal(bothOf(rig, random, driver => driver.create(spec, call)));
  const found = await findVolume(rig.open(), "pvc-2");
  const content = found && (await rig.read(found));
  await repeated(() => rig.open().delete("pvc-2", call));
  return code === "ok" && content === "content" ? [] : [code, message, content];
};

const detachedSnapshot: Round = async (rig, random, id) => {
  const take = (driver: Driver) => snapshotsOf(driver).create("s", id, { detachedSnapshots: "true" }, call);
  const { code, message } = await refusal(bothOf(rig, random, take));
  const made = await repeated(() => take(rig.open()));
  const known = await refusal(snapshotsOf(rig.open()).get(made.id, call));
  const clone = await rig.open().create(volumeOf("pvc-2", gib, { kind: "snapshot", id: made.id }), call);
  const content = await rig.read(clone);
  await rig.open().delete("pvc-2", call);
  await repeated(() => snapshotsOf(rig.open()).delete(made.id, call));
  return code === "ok" && known.code === "ok" && content === "content" ? [] : [code, message, known.code, content];
};

describe.each(recentVersions)("on TrueNAS %s", version => {
  test.each([
    ["volume over NFS", "nfs", copiedVolume],
    ["volume over iSCSI", "iscsi", copiedVolume],
    ["detached snapshot", "nfs", detachedSnapshot],
  ] as const)(
    "a %s that two controllers copy at once is reported by both, stays, and leaves nothing when it is deleted",
    async (_, protocol, play) => {
      const rig = await truenasRig(protocol, { version });
      const random = randomFrom(seed);
      try {
        for (let round = 1; round <= rounds; round++) {
          const source = await rig.open().create(volumeOf("pvc-1"), call);
          await rig.write(source, "content");
          expect([round, await play(rig, random, source.id)]).toEqual([round, []]);
          await repeated(() => rig.open().delete(source.id, call));
          expect([round, await rig.remains()]).toEqual([round, []]);
        }
      } finally {
        await rig.close();
      }
    },
    limitMs,
  );
});

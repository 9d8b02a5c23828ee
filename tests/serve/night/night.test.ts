import { afterAll, beforeAll, expect, test } from "bun:test";
import { isDeepStrictEqual } from "node:util";
import { pause } from "../../waiting.ts";
import { Callers, type Source, tools } from "./backup-tools.ts";
import { connections, type NightRig, nightRig } from "./night-rig.ts";

// A night of backups: many claims at once are snapshotted, cloned, read and forgotten, round after round, by tools that
// do not wait for each other, and csimux is killed meanwhile. In the morning everything is as it was.

/** How many backups there are; a round has 20 of them, or fewer. CSIMUX_SEED: the same moments of kills again. */
const backups = Number(process.env["CSIMUX_KILLS"] ?? 16);
const seed = Number(process.env["CSIMUX_SEED"] ?? Date.now() % 100_000);
const claims = Math.min(20, Math.max(8, backups / 2));
const rounds = Math.ceil(backups / claims);

const sources: readonly Source[] = Array.from({ length: claims }, (_, at) => ({
  connection: connections[at % connections.length] ?? "files",
  name: `pvc-${at}`,
  tool: tools[at % tools.length] ?? "velero",
}));

let rig: NightRig;
let callers: Callers;

beforeAll(async () => {
  rig = await nightRig();
  callers = new Callers(rig);
  const volumes = await Promise.all(
    sources.map(({ connection, name }) => callers.volume(connection, name, `shop/${name}`)),
  );
  for (const { name } of sources.filter(each => each.connection === "files")) rig.fill(name, `content of ${name}`);
  // With its first pod, a node makes the folder of its records.
  const [volume, source] = [volumes[0], sources[0]];
  if (volume && source) await (await callers.pod(volume, source))();
}, 600_000);
afterAll(async () => {
  expect(await rig.end()).toEqual([]);
}, 60_000);

let state = seed;
const random = (below: number): number => {
  state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
  return Math.floor((state / 2_147_483_648) * below);
};

/** All backups of a round at once, the restore of one claim, and on each connection a claim that is deleted meanwhile. */
async function round(at: number): Promise<void> {
  const restored = sources[at % sources.length];
  await Promise.all([
    ...sources.map(source => callers.backup(source, at)),
    ...(restored ? [callers.restore(restored, at)] : []),
    ...connections.map(each => callers.deletedMeanwhile(each, at)),
  ]);
}

/** Kills csimux `times` times, each time after some more calls were answered, until the round has ended. */
async function killed(times: number, work: Promise<void>): Promise<void> {
  let isOver = false;
  const over = work.finally(() => {
    isOver = true;
  });
  over.catch(() => {});
  for (let kill = 0; kill < times && !isOver; kill++) {
    const next = callers.answers + 2 + random(claims);
    while (callers.answers < next && !isOver) await pause(5);
    if (!isOver) await rig.kill();
  }
  await over;
}

const limitMs = 120_000 + backups * 15_000;

test(
  "each backup has its price",
  async () => {
    const prices: Record<string, number> = {};
    rig.costs();
    for (const tool of tools)
      for (const connection of connections) {
        const source = sources.find(each => each.connection === connection);
        if (!source) throw new Error("no source");
        await callers.backup({ ...source, tool }, rounds * 2);
        await callers.retireAll();
        const { zfs, truenas } = rig.costs();
        prices[`${tool} on ${connection}`] = zfs.length + truenas.length;
      }
    process.stderr.write(`commands of zfs, or requests to TrueNAS: ${JSON.stringify(prices, undefined, 1)}\n`);
    // Half of that, and less: where a processor is slow, calls are repeated.
    expect(Object.values(prices).filter(price => price === 0 || price > 100)).toEqual([]);
  },
  limitMs,
);

test(
  "a night of backups leaves nothing",
  async () => {
    const before = rig.everything();
    for (let at = 0; at < rounds; at++) await round(at);
    await callers.retireAll();
    expect(rig.everything()).toEqual(before);
  },
  limitMs,
);

test(
  "a night in which csimux is killed again and again leaves nothing, either",
  async () => {
    process.stderr.write(`CSIMUX_SEED=${seed} CSIMUX_KILLS=${backups}\n`);
    const before = rig.everything();
    for (let at = rounds; at < 2 * rounds; at++) await killed(4, round(at));
    await callers.retireAll();
    // Tombstones whose deletion a kill has interrupted go with the next check of the health.
    for (const end = Date.now() + 60_000; Date.now() < end && !isDeepStrictEqual(rig.everything(), before); )
      await pause(250);
    expect(rig.everything()).toEqual(before);
  },
  limitMs,
);

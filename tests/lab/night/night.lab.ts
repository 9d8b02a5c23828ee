import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Callers, type Site, type Source, tools } from "../../serve/night/backup-tools.ts";
import type { World } from "../../serve/world.ts";
import { pause } from "../../waiting.ts";
import { foldersOf, mountVolume, startCsimux, unmountVolume, whileMounted } from "../rig.ts";
import { run } from "../run.ts";
import { leftSince, traces } from "../traces.ts";
import { type ZfsDriver, zfsDrivers } from "../zfs/zfs-drivers.ts";
import { storageHost } from "../zfs/zfs-host.ts";
import { deleteVolume, digestOf } from "../zfs/zfs-pool.ts";

// A night of backups (tests/serve/night) on a real ZFS with real mounts and sessions: this machine is storage host and node.
// LAB_CLAIMS: how many claims are backed up at once on each connection, LAB_ROUNDS: how often.

const claims = Number(process.env["LAB_CLAIMS"] ?? 4);
const rounds = Number(process.env["LAB_ROUNDS"] ?? 2);
/** 20 claims on two connections at once in ten rounds take hours on an emulated processor. */
const limitMs = 900_000 + claims * rounds * 240_000;

const fileOf = storageHost();
const drivers = zfsDrivers.filter(({ connection }) => ["nfs", "iscsi", "nvmeof"].includes(connection));
const pairs = drivers.flatMap((first, at) => drivers.slice(at + 1).map(second => [first, second] as const));

/** Everything below the connections on the pool with what holds and marks it, and what the node keeps. */
async function everything(world: World, used: readonly ZfsDriver[]): Promise<readonly string[]> {
  const parents = used.map(({ connection }) => `tank/${connection}`);
  const script = [
    'zfs list -Hr -t all -o name,type,guid,origin,clones,defer_destroy,userrefs "$@"',
    'zfs get -Hr -s local,received -o name,property,value all "$@"',
    'zfs list -H -o name -t snapshot,bookmark -r "$@" | grep @ | xargs -r zfs holds -H | cut -f1,2',
    'find "$state" | sort',
  ].join("\n");
  const text = await run(["env", `state=${world.sandbox.stateDir}`, "sh", "-c", script, "everything", ...parents]);
  return text.split("\n");
}

/** The mounts and sessions of a pod, made and ended as kubelet does. */
function siteOf(world: World, used: readonly ZfsDriver[], contents: ReadonlyMap<string, string>): Site {
  return {
    world,
    callMs: 120_000,
    async pod(volume, source, done) {
      const { mount } = used.find(({ connection }) => connection === source.connection) ?? { mount: {} };
      const path = await done(() => mountVolume(world, volume, mount));
      expect(await digestOf(join(path, "data"))).toBe(contents.get(source.name) ?? "");
      return async () => {
        await done(() => unmountVolume(world, volume));
        await rmdir(foldersOf(world, volume).staging);
      };
    },
  };
}

async function night(used: readonly ZfsDriver[], kills: number): Promise<void> {
  const connections = Object.fromEntries(used.map(driver => [driver.connection, fileOf(driver)]));
  const world = await startCsimux({ connections, flags: ["--health-interval=0"] });
  const contents = new Map<string, string>();
  const callers = new Callers(siteOf(world, used, contents));
  const sources: readonly Source[] = used.flatMap(({ connection }) =>
    Array.from({ length: claims }, (_, at) => ({
      connection,
      name: `pvc-${connection}-${at}`,
      tool: tools[at % tools.length] ?? "velero",
    })),
  );
  try {
    const volumes: string[] = [];
    for (const { connection, name } of sources) {
      const volume = await callers.volume(connection, name, `shop/${name}`);
      volumes.push(volume.volumeId);
      const { mount } = used.find(each => each.connection === connection) ?? { mount: {} };
      await whileMounted(world, volume, async path => void contents.set(name, await written(path)), mount);
    }
    const [mounts, before] = [await traces(), await everything(world, used)];
    for (let at = 0; at < rounds; at++) {
      const began = performance.now();
      const restored = sources[at % sources.length];
      const work = Promise.all([
        ...sources.map(source => callers.backup(source, at)),
        ...(restored ? [callers.restore(restored, at)] : []),
      ]);
      await killed(world, callers, kills, work);
      const seconds = Math.round((performance.now() - began) / 1000);
      process.stderr.write(
        `round ${at}: ${sources.length} backups in ${seconds} s, load ${readFileSync("/proc/loadavg", "utf8")}`,
      );
    }
    await callers.retireAll();
    expect(await leftSince(mounts)).toEqual([]);
    expect(await everything(world, used)).toEqual(before);
    for (const volumeId of volumes) await deleteVolume(world, volumeId);
  } catch (error) {
    // What a failure leaves says less than the failure.
    await world.end();
    throw error;
  }
  expect(await world.end()).toEqual([]);
}

/** Kills csimux `times` times, each time after some more calls were answered. */
async function killed(world: World, callers: Callers, times: number, work: Promise<unknown>): Promise<void> {
  let isOver = false;
  const over = work.finally(() => {
    isOver = true;
  });
  over.catch(() => {});
  for (let kill = 0; kill < times && !isOver; kill++) {
    const next = callers.answers + 5;
    while (callers.answers < next && !isOver) await pause(100);
    if (isOver) break;
    process.kill(world.daemon.pid, "SIGKILL");
    await world.daemon.stop();
    await world.restart();
  }
  await over;
}

/** Writes and syncs content; returns its digest. */
async function written(path: string): Promise<string> {
  await writeFile(join(path, "data"), randomBytes(1 << 20));
  await run(["sync", "-f", path]);
  return digestOf(join(path, "data"));
}

test.each(pairs.map(([first, second]) => [first.title, second.title, [first, second]] as const))(
  "a night of backups of %s and %s leaves nothing",
  (_first, _second, used) => night(used, 0),
  limitMs,
);

test("a night in which csimux is killed again and again leaves nothing, either", () => night(drivers, 3), limitMs * 2);

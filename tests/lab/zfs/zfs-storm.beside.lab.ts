import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import type { World } from "../../serve/world.ts";
import {
  guestPoolBelow,
  guestShell,
  guestTraces,
  leftInGuest,
  making,
  numbered,
  removing,
  sshLines,
} from "../beside.ts";
import { persistently } from "../persistently.ts";
import { startCsimux } from "../rig.ts";
import { zfsDrivers } from "./zfs-drivers.ts";

/**
 * The number of volumes created while as many are deleted: targetcli takes several seconds for a target here. LAB_VOLUMES: fewer NFS
 * volumes, for a busy machine.
 */
const storms = [
  ["nfs", Number(process.env["LAB_VOLUMES"] ?? 100)],
  ["iscsi", 8],
] as const;
const limitMs = 2_400_000;

let before: ReadonlySet<string>;
let world: World;

beforeAll(async () => {
  before = await guestTraces();
  const login = await sshLines();
  const used = zfsDrivers.filter(({ connection }) => storms.some(([name]) => name === connection));
  const files = used.map(driver => [driver.connection, driver.file({ lines: () => login })] as const);
  world = await startCsimux({ connections: Object.fromEntries(files) });
}, limitMs);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  for (const [name] of storms) await guestShell(`zfs destroy -r tank/${name} 2>/dev/null || :`);
  expect(await leftInGuest(before)).toEqual([]);
}, limitMs);

/** Resident memory of csimux in MiB. */
async function memory(): Promise<number> {
  const text = await readFile(`/proc/${world.daemon.pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(text)?.[1]) / 1024;
}

/** Repeated durations of Probe, in milliseconds, while some work runs. */
async function probesDuring(work: Promise<unknown>): Promise<readonly number[]> {
  let over = false;
  const end = () => {
    over = true;
  };
  work.then(end, end);
  const times: number[] = [];
  while (!over) {
    const asked = performance.now();
    expect((await world.probe()).ready).toBe(true);
    times.push(performance.now() - asked);
    await pause(100);
  }
  return times.sort((a, b) => a - b);
}

/** Everything reachable for nodes: NFS exports and iSCSI targets. */
const shares = async (): Promise<readonly string[]> =>
  (
    await guestShell(
      "grep -o '^/tank/nfs/v/[^ \t]*' /var/lib/nfs/etab; ls /sys/kernel/config/target/iscsi | grep ^iqn; :",
    )
  )
    .split("\n")
    .filter(line => line !== "");

/** Takes a snapshot of a volume, and deletes it. */
async function snapshotted(connection: string, name: string): Promise<void> {
  const request = { sourceVolumeId: `v:${connection}/${name}`, name: `snap-${connection}-${name}` };
  const { snapshot } = await persistently(() => world.controller("createSnapshot", request, 120_000));
  const snapshotId = snapshot?.snapshotId ?? "";
  await persistently(() => world.controller("deleteSnapshot", { snapshotId }, 120_000));
}

test.each(storms)(
  "while volumes of %s are deleted, %p others are created, each with a snapshot that is deleted again",
  async (connection, count) => {
    const [old, fresh] = [numbered("old", count), numbered("new", count)];
    await Promise.all(old.map(name => making(world, connection, name)));
    const calm = await memory();
    const began = performance.now();
    const storm = Promise.all([
      ...old.map(name => removing(world, connection, name)),
      ...fresh.map(name => making(world, connection, name).then(() => snapshotted(connection, name))),
    ]);
    const probes = await probesDuring(storm);
    await storm;
    const seconds = ((performance.now() - began) / 1000).toFixed(0);
    expect(await guestPoolBelow(`tank/${connection}/v`)).toEqual(fresh.map(name => `/${name}`).sort());
    expect(await guestPoolBelow(`tank/${connection}/s`)).toEqual([]);
    expect(await shares()).toHaveLength(count);
    await Promise.all(fresh.map(name => removing(world, connection, name)));
    expect(await guestPoolBelow(`tank/${connection}/v`)).toEqual([]);
    expect(await shares()).toEqual([]);
    const after = await memory();
    const [middle, slowest] = [probes[probes.length >> 1], probes.at(-1)].map(ms => `${ms?.toFixed(1)} ms`);
    process.stderr.write(
      `${connection}: ${seconds} s; Probe ${middle}, at most ${slowest}; memory ${calm.toFixed(0)} MiB, then ${after.toFixed(0)} MiB\n`,
    );
    expect(after).toBeLessThan(calm + 40);
  },
  limitMs,
);

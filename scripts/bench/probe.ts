import { setTimeout as pause } from "node:timers/promises";
import { Identity } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { csiClient } from "../client.ts";
import { startDaemon } from "../daemon.ts";
import { makeSandbox } from "../sandbox.ts";
import { load, median } from "./load.ts";
import { cpuMs, memoryMiB } from "./process.ts";
import { inSetting, type Scale } from "./setting.ts";
import type { Figure } from "./table.ts";

/** One spawn: to the first good Probe, idle for a while, stopped. */
async function spawnOnce(executable: string, idleMs: number) {
  const sandbox = await makeSandbox("zone");
  const from = performance.now();
  const daemon = await startDaemon({ command: [executable], sandbox, pollMs: 1 });
  const client = csiClient(sandbox.socket);
  await client.call(Identity.method.probe, {});
  const wall = performance.now() - from;
  const cpu = cpuMs(daemon.pid);
  await pause(idleMs);
  const memory = memoryMiB(daemon.pid);
  client.close();
  const { ms } = await daemon.stop();
  await sandbox.remove();
  return { wall, cpu, ...memory, stop: ms };
}

/** Spawn to first good Probe, memory when idle, time to stop. */
export async function coldStart(executable: string, scale: Scale): Promise<readonly Figure[]> {
  const spawns: Awaited<ReturnType<typeof spawnOnce>>[] = [];
  for (let index = 0; index < scale.spawns; index++) spawns.push(await spawnOnce(executable, scale.idleMs));
  const middle = (key: keyof (typeof spawns)[number]): number => median(spawns.map(spawn => spawn[key]));
  return [
    { what: "spawn to first good Probe", value: middle("wall"), unit: "ms", peer: 843, target: 80 },
    { what: "  CPU", value: middle("cpu"), unit: "ms", peer: 950, target: 80 },
    { what: "resident after start", value: middle("rss"), unit: "MiB", peer: 107, target: 60 },
    { what: "  proportional", value: middle("pss"), unit: "MiB", peer: 104 },
    { what: "stop when idle", value: middle("stop"), unit: "ms", peer: 14 },
  ];
}

const peers = [
  { workers: 1, p50: 0.389, perSecond: 2351, cpu: 0.31, target: 0.15 },
  { workers: 32, p50: 5.45, perSecond: 5264, cpu: 0.19, target: 0.06 },
] as const;

/** Probe in a closed loop on one connection, at one call at a time and at 32. */
export const probes = (executable: string, scale: Scale): Promise<readonly Figure[]> =>
  inSetting({ executable }, async ({ daemon, client }) => {
    const probe = () => client.call(Identity.method.probe, {});
    await load(daemon.pid, 300, 8, probe);
    const figures: Figure[] = [];
    for (const peer of peers) {
      const runs = [];
      for (let run = 0; run < scale.probeRuns; run++)
        runs.push(await load(daemon.pid, scale.probes, peer.workers, probe));
      const at = `Probe, ${peer.workers} at once`;
      figures.push(
        {
          what: `${at}: CPU a call`,
          value: median(runs.map(run => run.cpu)),
          unit: "ms",
          peer: peer.cpu,
          target: peer.target,
        },
        { what: "  p50", value: median(runs.map(run => median(run.times))), unit: "ms", peer: peer.p50 },
        { what: "  rate", value: median(runs.map(run => run.perSecond)), unit: "/s", peer: peer.perSecond },
      );
    }
    return figures;
  });

/** Resident memory after each of three long runs of Probe. */
export const soak = (executable: string, scale: Scale): Promise<readonly Figure[]> =>
  inSetting({ executable }, async ({ daemon, client }) => {
    const figures: Figure[] = [];
    for (const peer of [163, 252, 194]) {
      await load(daemon.pid, scale.soakCalls, 32, () => client.call(Identity.method.probe, {}));
      const calls = ((figures.length + 1) * scale.soakCalls) / 1000;
      figures.push({
        what: `resident after ${calls}k calls`,
        value: memoryMiB(daemon.pid).rss,
        unit: "MiB",
        peer,
        target: 90,
      });
    }
    await pause(scale.restMs);
    figures.push({ what: `  at rest ${scale.restMs / 1000} s later`, value: memoryMiB(daemon.pid).rss, unit: "MiB" });
    return figures;
  });

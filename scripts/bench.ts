import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Controller, Identity, Node } from "../lib/csi/gen/csi/v1/csi_pb.ts";
import { keep } from "./bench/keep.ts";
import { scale } from "./bench/scale.ts";
import { build } from "./build.ts";
import { type CsiClient, csiClient, mountCapability } from "./client.ts";
import { type Daemon, startDaemon } from "./daemon.ts";
import { engineSettings } from "./engine.ts";
import { cpuMs, type Figure, load, median, memoryMiB, table } from "./figures.ts";
import { makeSandbox, type Sandbox } from "./sandbox.ts";

// Measures the compiled executable: two local-hostpath connections and topology by zone, one process for controller and node on
// a Unix socket, with the environment of the image, its log in a file, a client in this process. QUICK=1: two minutes instead of a record.

const quick = process.argv.includes("--quick");
const few = (full: number, least: number): number => (quick ? least : full);
const executable = await build();

/** A server of its own and a client on it. */
interface Server {
  readonly daemon: Daemon;
  readonly sandbox: Sandbox;
  readonly client: CsiClient;
  /** From its start to the first good Probe, in milliseconds. */
  readonly startMs: number;
}

/** Starts a server, waits for its first good Probe, gives it to `work` and removes everything. */
async function withServer<T>(
  work: (server: Server) => Promise<T>,
  connections?: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<T> {
  const sandbox = await makeSandbox("zone", connections);
  try {
    const from = performance.now();
    const settings = { ...engineSettings, ...env };
    const daemon = await startDaemon({ command: [executable], sandbox, pollMs: 1, env: settings });
    const client = csiClient(sandbox.socket);
    try {
      await client.call(Identity.method.probe, {});
      return await work({ daemon, sandbox, client, startMs: performance.now() - from });
    } finally {
      client.close();
      await daemon.stop();
    }
  } finally {
    await sandbox.remove();
  }
}

async function coldStart(): Promise<readonly Figure[]> {
  const starts: Record<"wall" | "cpu" | "rss" | "pss" | "stop", number>[] = [];
  for (let index = 0; index < few(11, 5); index++)
    await withServer(async ({ daemon, startMs: wall }) => {
      const cpu = cpuMs(daemon.pid);
      await pause(few(2000, 500));
      const [rss, pss] = [memoryMiB(daemon.pid), memoryMiB(daemon.pid, "Pss")];
      starts.push({ wall, cpu, rss, pss, stop: (await daemon.stop()).ms });
    });
  const middle = (key: keyof (typeof starts)[number]): number => median(starts.map(start => start[key]));
  return [
    { what: "start to first good Probe", value: middle("wall"), unit: "ms", peer: 843, target: 80 },
    { what: "  CPU", value: middle("cpu"), unit: "ms", peer: 950, target: 80 },
    { what: "resident after start", value: middle("rss"), unit: "MiB", peer: 107, target: 60 },
    { what: "  proportional", value: middle("pss"), unit: "MiB", peer: 104 },
    { what: "stop when idle", value: middle("stop"), unit: "ms", peer: 14 },
    { what: "executable", value: (await stat(executable)).size / 1e6, unit: "MB", peer: 147 },
  ];
}

const probes = (): Promise<readonly Figure[]> =>
  withServer(async ({ daemon, client }) => {
    const probe = () => client.call(Identity.method.probe, {});
    await load(daemon.pid, 300, 8, probe);
    const figures: Figure[] = [];
    for (const { atOnce, p50, rate, cpu, target } of [
      { atOnce: 1, p50: 0.389, rate: 2351, cpu: 0.31, target: 0.15 },
      { atOnce: 32, p50: 5.45, rate: 5264, cpu: 0.19, target: 0.06 },
    ]) {
      const runs = [];
      for (let run = 0; run < few(7, 3); run++) runs.push(await load(daemon.pid, few(10_000, 3000), atOnce, probe));
      const what = `Probe, ${atOnce} at once: CPU of a call`;
      figures.push(
        { what, value: median(runs.map(run => run.cpu)), unit: "ms", peer: cpu, target },
        { what: "  p50", value: median(runs.map(run => median(run.times))), unit: "ms", peer: p50 },
        { what: "  rate", value: median(runs.map(run => run.perSecond)), unit: "/s", peer: rate },
      );
    }
    const more = few(100_000, 20_000);
    for (const [at, peer] of [163, 252, 194].entries()) {
      await load(daemon.pid, more, 32, probe);
      const what = `resident after ${((at + 1) * more).toLocaleString("en-US")} more calls`;
      figures.push({ what, value: memoryMiB(daemon.pid), unit: "MiB", peer, target: 90 });
    }
    await pause(few(10_000, 3000));
    return [...figures, { what: "  at rest afterwards", value: memoryMiB(daemon.pid), unit: "MiB" }];
  });

async function createVolume(client: CsiClient, name: string, connection: string) {
  const { volume } = await client.call(Controller.method.createVolume, {
    name,
    parameters: { connection },
    capacityRange: { requiredBytes: 1n << 20n },
    volumeCapabilities: [mountCapability],
  });
  return { volumeId: volume?.volumeId ?? "", volumeContext: volume?.volumeContext ?? {} };
}

/** Creates and deletes a volume. Returns the milliseconds of the creation. */
async function pair(client: CsiClient, name: string, connection: string): Promise<number> {
  const from = performance.now();
  const { volumeId } = await createVolume(client, name, connection);
  const ms = performance.now() - from;
  await client.call(Controller.method.deleteVolume, { volumeId });
  return ms;
}

const pairs = (): Promise<readonly Figure[]> =>
  withServer(async ({ daemon, client }) => {
    const figures: Figure[] = [];
    for (const { atOnce, p50, rate, cpu, target } of [
      { atOnce: 1, p50: 0.55, rate: 855, cpu: 0.83, target: 0.6 },
      { atOnce: 8, p50: 3.4, rate: 1179, cpu: 0.73, target: undefined },
      { atOnce: 32, p50: 11.6, rate: 1307, cpu: 0.7, target: undefined },
    ]) {
      const creations: number[] = [];
      const one = async (index: number) =>
        creations.push(await pair(client, `pvc-${atOnce}-${index}`, index % 2 === 0 ? "one" : "two"));
      await load(daemon.pid, 20, atOnce, index => one(-1 - index));
      creations.length = 0;
      const run = await load(daemon.pid, few(300, 100), atOnce, one);
      const what = `create + delete, ${atOnce} at once: CPU of a pair`;
      figures.push(
        { what, value: run.cpu, unit: "ms", peer: cpu, ...(target && { target }) },
        { what: "  create p50", value: median(creations), unit: "ms", peer: p50 },
        { what: "  rate", value: run.perSecond, unit: "/s", peer: rate },
      );
    }
    return figures;
  });

/** The milliseconds that the peer takes for each step. */
const stepPeers = { stage: 9, publish: 16, unpublish: 12, unstage: 66 } as const;

type Steps = Record<keyof typeof stepPeers, number[]>;

/** Returns the life of volume `index` on the node; `steps` collects the milliseconds of each step. */
async function cycles({ client, sandbox }: Server, count: number) {
  const volumes: Awaited<ReturnType<typeof createVolume>>[] = [];
  for (let index = 0; index < count; index++) volumes.push(await createVolume(client, `node-${index}`, "one"));
  const steps: Steps = { stage: [], publish: [], unpublish: [], unstage: [] };
  const cycle = async (index: number) => {
    const { volumeId, volumeContext } = volumes[index] ?? { volumeId: "", volumeContext: {} };
    const stagingTargetPath = join(sandbox.folder, "node", String(index), "staging");
    const targetPath = join(sandbox.folder, "node", String(index), "target");
    await mkdir(stagingTargetPath, { recursive: true });
    const timed = async (step: keyof Steps, call: Promise<unknown>) => {
      const from = performance.now();
      await call;
      steps[step].push(performance.now() - from);
    };
    const volume = { volumeId, volumeContext: { ...volumeContext }, volumeCapability: mountCapability };
    await timed("stage", client.call(Node.method.nodeStageVolume, { ...volume, stagingTargetPath }));
    await timed("publish", client.call(Node.method.nodePublishVolume, { ...volume, stagingTargetPath, targetPath }));
    await timed("unpublish", client.call(Node.method.nodeUnpublishVolume, { volumeId, targetPath }));
    await timed("unstage", client.call(Node.method.nodeUnstageVolume, { volumeId, stagingTargetPath }));
  };
  return { cycle, steps };
}

/** The number of programs that one cycle starts: the tools are replaced by scripts that count themselves. */
async function programsPerCycle(): Promise<number> {
  const tools = await makeSandbox("off", []);
  const counter = join(tools.folder, "counter");
  try {
    await writeFile(counter, "");
    for (const tool of ["mount", "umount", "blkid", "stat", "cp", "rsync", "chmod", "chown", "sh"]) {
      const text = `#!/bin/bash\necho ${tool} >>${counter}\nPATH=${process.env["PATH"]} exec ${tool} "$@"\n`;
      await writeFile(join(tools.folder, tool), text, { mode: 0o755 });
    }
    const count = async (server: Server) => {
      const { cycle } = await cycles(server, 4);
      const before = (await readFile(counter, "utf8")).length;
      for (let index = 0; index < 4; index++) await cycle(index);
      return (await readFile(counter, "utf8")).slice(before).split("\n").filter(Boolean).length / 4;
    };
    return await withServer(count, undefined, { PATH: `${tools.folder}:${process.env["PATH"]}` });
  } finally {
    await tools.remove();
  }
}

const nodeCycles = (): Promise<readonly Figure[]> =>
  withServer(async server => {
    const count = few(40, 16);
    const { cycle, steps } = await cycles(server, count);
    await load(server.daemon.pid, 2, 1, cycle);
    for (const times of Object.values(steps)) times.length = 0;
    const alone = await load(server.daemon.pid, count, 1, cycle);
    const perStep = Object.entries(stepPeers).map(([step, peer]) => {
      return { what: `  ${step}`, value: median(steps[step as keyof Steps]), unit: "ms", peer };
    });
    const many = await load(server.daemon.pid, count, 8, cycle);
    return [
      { what: "node cycle, 1 at once", value: median(alone.times), unit: "ms", peer: 105, target: 15 },
      { what: "  CPU", value: alone.cpu, unit: "ms", peer: 111, target: 15 },
      ...perStep,
      { what: "  child processes", value: await programsPerCycle(), unit: "", peer: 24, target: 4 },
      { what: "node cycle, 8 at once", value: median(many.times), unit: "ms", peer: 509 },
      { what: "  CPU", value: many.cpu, unit: "ms", peer: 102 },
    ];
  });

async function manyConnections(): Promise<readonly Figure[]> {
  const names = Array.from({ length: few(1000, 200) }, (_, index) => `c${String(index).padStart(4, "0")}`);
  return await withServer(async ({ daemon, client }) => {
    const before = memoryMiB(daemon.pid);
    const first: number[] = [];
    for (const [round, atOnce] of [1, 1, 1, 32].entries())
      await load(daemon.pid, names.length, atOnce, async index => {
        const ms = await pair(client, `pvc-${round}-${index}`, names[index] ?? "");
        if (round === 0) first.push(ms);
      });
    const after = memoryMiB(daemon.pid);
    await pause(200);
    const logged = (await daemon.log()).length;
    const idleMs = few(65_000, 3000);
    await pause(idleMs);
    const perMinute = ((await daemon.log()).length - logged) / (idleMs / 60_000);
    const rest = memoryMiB(daemon.pid);
    const { ms } = await daemon.stop();
    return [
      { what: `${names.length} connections: first create, p50`, value: median(first), unit: "ms", peer: 1.15 },
      { what: "  memory that they add", value: after - before, unit: "MiB", peer: 30, target: 20 },
      { what: "  at rest", value: rest - before, unit: "MiB" },
      { what: "  log in an idle minute", value: perMinute / 1000, unit: "kB", peer: 616, target: 0 },
      { what: "  stop", value: ms / 1000, unit: "s", peer: 1.6, target: 0.3 },
    ];
  }, names);
}

/** The scenarios by the name under which their figures are kept. */
const scenarios = {
  bench: { coldStart, probes, pairs, nodeCycles, manyConnections },
  "bench-scale": { scale: () => scale(executable, quick) },
};
const only = process.argv[process.argv.indexOf("--only") + 1 || process.argv.length] ?? "";
const figures: Figure[] = [];
for (const [name, all] of Object.entries(scenarios)) {
  const chosen = Object.entries(all).filter(([title]) => title.includes(only));
  const own: Figure[] = [];
  for (const [title, run] of chosen) {
    process.stderr.write(`${title} ...\n`);
    own.push(...(await run()));
  }
  if (process.argv.includes("--keep") && own.length > 0) await keep(name, own);
  figures.push(...own);
}
console.log(`${table(figures)}

peer: the unmerged proxy of democratic-csi, measured on a machine like the one that the targets were set on; its "create +
delete" leaves volumes in the page cache, while csimux answers only when they are on stable storage (fsync).
MISSED: worse than the target; other programs that run here count, too.`);

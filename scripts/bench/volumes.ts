import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Controller, Identity, Node } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { type CsiClient, mountCapability } from "../client.ts";
import { load, median } from "./load.ts";
import { memoryMiB } from "./process.ts";
import { inSetting, type Scale, type Setting } from "./setting.ts";
import type { Figure } from "./table.ts";

async function createVolume(client: CsiClient, name: string, connection: string) {
  const { volume } = await client.call(Controller.method.createVolume, {
    name,
    parameters: { connection },
    capacityRange: { requiredBytes: 1n << 20n },
    volumeCapabilities: [mountCapability],
  });
  return { id: volume?.volumeId ?? "", context: volume?.volumeContext ?? {} };
}

/** Creates and deletes a volume; answers the milliseconds of the creation. */
export async function pair(client: CsiClient, name: string, connection: string): Promise<number> {
  const from = performance.now();
  const { id } = await createVolume(client, name, connection);
  const ms = performance.now() - from;
  await client.call(Controller.method.deleteVolume, { volumeId: id });
  return ms;
}

const pairPeers = [
  { workers: 1, p50: 0.55, perSecond: 855, cpu: 0.83, target: 0.6 },
  { workers: 8, p50: 3.4, perSecond: 1179, cpu: 0.73, target: undefined },
  { workers: 32, p50: 11.6, perSecond: 1307, cpu: 0.7, target: undefined },
] as const;

/** Creation and deletion of volumes on two local-hostpath connections in turn. */
export const pairs = (executable: string, scale: Scale): Promise<readonly Figure[]> =>
  inSetting({ executable }, async ({ daemon, client }) => {
    const figures: Figure[] = [];
    for (const { workers, p50, perSecond, cpu, target } of pairPeers) {
      const creations: number[] = [];
      const one = async (index: number) =>
        creations.push(await pair(client, `pvc-${workers}-${index}`, index % 2 === 0 ? "one" : "two"));
      await load(daemon.pid, 20, workers, index => one(-1 - index));
      creations.length = 0;
      const run = await load(daemon.pid, scale.pairs, workers, one);
      figures.push(
        {
          what: `create + delete, ${workers} at once: CPU a pair`,
          value: run.cpu,
          unit: "ms",
          peer: cpu,
          ...(target ? { target } : {}),
        },
        { what: "  create p50", value: median(creations), unit: "ms", peer: p50 },
        { what: "  rate", value: run.perSecond, unit: "/s", peer: perSecond },
      );
    }
    await load(daemon.pid, scale.morePairs, 1, index => pair(client, `pvc-more-${index}`, "one"));
    const warm = await load(daemon.pid, scale.pairs, 1, index => pair(client, `pvc-warm-${index}`, "one"));
    return [
      ...figures,
      { what: `create + delete, 1 at once, ${scale.morePairs} pairs later`, value: warm.cpu, unit: "ms" },
    ];
  });

type Step = "stage" | "publish" | "unpublish" | "unstage";

/** A volume as the node gets it. */
export interface Staged {
  readonly id: string;
  readonly context: Readonly<Record<string, string>>;
}

/** One volume through the node side; adds the milliseconds of each step to `steps`. */
export async function cycle(
  { client, sandbox }: { readonly client: CsiClient; readonly sandbox: Pick<Setting["sandbox"], "folder"> },
  { id, context }: Staged,
  steps: Readonly<Record<Step, number[]>>,
): Promise<void> {
  const place = join(sandbox.folder, "node", id.replaceAll(/[^a-z0-9]/g, "-"));
  const stagingTargetPath = join(place, "staging");
  const targetPath = join(place, "target");
  await mkdir(stagingTargetPath, { recursive: true });
  const timed = async (step: Step, call: Promise<unknown>) => {
    const from = performance.now();
    await call;
    steps[step].push(performance.now() - from);
  };
  const common = { volumeId: id, volumeContext: { ...context }, volumeCapability: mountCapability };
  await timed("stage", client.call(Node.method.nodeStageVolume, { ...common, stagingTargetPath }));
  await timed("publish", client.call(Node.method.nodePublishVolume, { ...common, stagingTargetPath, targetPath }));
  await timed("unpublish", client.call(Node.method.nodeUnpublishVolume, { volumeId: id, targetPath }));
  await timed("unstage", client.call(Node.method.nodeUnstageVolume, { volumeId: id, stagingTargetPath }));
}

/** For who does not look at the steps. */
export const noSteps = (): Record<Step, number[]> => ({ stage: [], publish: [], unpublish: [], unstage: [] });

/** Volumes of the connection "one". */
export async function makeVolumes(client: CsiClient, count: number): Promise<readonly Staged[]> {
  const volumes: Staged[] = [];
  for (let index = 0; index < count; index++) volumes.push(await createVolume(client, `node-${index}`, "one"));
  return volumes;
}

const counted =
  "mount umount findmnt mountpoint blkid lsblk mkdir stat df du cp rsync chmod chown sync sh nsenter chroot udevadm";

/** Stand-ins for the programs that a node may call; each leaves one line in a file and becomes the real program. */
async function countingPath(folder: string, counter: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const path = process.env["PATH"] ?? "";
  for (const program of counted.split(" ")) {
    const real = await firstThatExists(path.split(delimiter).map(part => join(part, program)));
    if (real === undefined) continue;
    await writeFile(join(folder, program), `#!/bin/bash\necho ${program} >>${counter}\nexec ${real} "$@"\n`);
    await chmod(join(folder, program), 0o755);
  }
  await writeFile(counter, "");
  return `${folder}${delimiter}${path}`;
}

async function firstThatExists(paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths)
    if (
      await stat(path).then(
        found => found.isFile(),
        () => false,
      )
    )
      return path;
  return undefined;
}

/** How many programs one cycle starts; measured apart, because the counting itself takes time. */
async function childProcesses(executable: string, folder: string): Promise<number> {
  const counter = join(folder, "counter");
  const path = await countingPath(join(folder, "bin"), counter);
  return inSetting({ executable, env: { PATH: path } }, async setting => {
    const volumes = await makeVolumes(setting.client, 4);
    const before = (await readFile(counter, "utf8")).length;
    for (const volume of volumes) await cycle(setting, volume, noSteps());
    const text = (await readFile(counter, "utf8")).slice(before);
    return text.split("\n").filter(Boolean).length / volumes.length;
  });
}

const stepPeers: Readonly<Record<Step, number>> = { stage: 9, publish: 16, unpublish: 12, unstage: 66 };

/** Stage, publish, unpublish and unstage of distinct volumes, one at a time and eight at once. */
export const nodeCycles = (executable: string, scale: Scale, folder: string): Promise<readonly Figure[]> =>
  inSetting({ executable }, async setting => {
    const { daemon, client } = setting;
    const volumes = await makeVolumes(client, scale.cycles);
    const nothing: Staged = { id: "", context: {} };
    await load(daemon.pid, 2, 1, index => cycle(setting, volumes[index] ?? nothing, noSteps()));
    const steps = noSteps();
    const alone = await load(daemon.pid, scale.cycles, 1, index => cycle(setting, volumes[index] ?? nothing, steps));
    const many = await load(daemon.pid, scale.cycles, 8, index => cycle(setting, volumes[index] ?? nothing, noSteps()));
    return [
      { what: "node cycle, 1 at once", value: median(alone.times), unit: "ms", peer: 105, target: 15 },
      { what: "  CPU", value: alone.cpu, unit: "ms", peer: 111, target: 15 },
      ...Object.entries(stepPeers).map(([step, peer]) => ({
        what: `  ${step}`,
        value: median(steps[step as Step]),
        unit: "ms",
        peer,
      })),
      { what: "  child processes", value: await childProcesses(executable, folder), unit: "", peer: 24, target: 4 },
      { what: "node cycle, 8 at once", value: median(many.times), unit: "ms", peer: 509 },
      { what: "  CPU", value: many.cpu, unit: "ms", peer: 102 },
    ];
  });

/** A create and delete on each of `names`, three times one at a time, then at 32 at once; answers the times of the first creates. */
async function touched({ daemon, client }: Setting, names: readonly string[]): Promise<readonly number[]> {
  const touch = (round: string) => (index: number) => pair(client, `pvc-${round}-${index}`, names[index] ?? "");
  const first: number[] = [];
  await load(daemon.pid, names.length, 1, async index => first.push(await touch("first")(index)));
  for (const round of ["second", "third"]) await load(daemon.pid, names.length, 1, touch(round));
  await load(daemon.pid, names.length, 32, touch("many"));
  return first;
}

/** Memory in MiB of a server that has started, as the cold start measures it: after its first answer. */
async function memoryAtStart({ daemon, client }: Setting): Promise<number> {
  await client.call(Identity.method.probe, {});
  return memoryMiB(daemon.pid).rss;
}

/** What as many calls add to the memory when all are on one connection: the part that is not the connections'. */
const callsAlone = (executable: string, scale: Scale): Promise<number> =>
  inSetting({ executable, connections: ["one"] }, async setting => {
    const before = await memoryAtStart(setting);
    await touched(
      setting,
      Array.from({ length: scale.connections }, () => "one"),
    );
    return memoryMiB(setting.daemon.pid).rss - before;
  });

/** Many connections, all touched; then silence, then SIGTERM. */
export async function manyConnections(executable: string, scale: Scale): Promise<readonly Figure[]> {
  const connections = Array.from({ length: scale.connections }, (_, index) => `c${String(index).padStart(4, "0")}`);
  const alone = await callsAlone(executable, scale);
  let stopMs = Number.NaN;
  const figures = await inSetting({ executable, connections }, async setting => {
    const { daemon } = setting;
    const before = await memoryAtStart(setting);
    const first = await touched(setting, connections);
    const after = memoryMiB(daemon.pid).rss;
    await pause(200);
    const logged = (await daemon.log()).length;
    await pause(scale.silenceMs);
    const chatter = ((await daemon.log()).length - logged) / (scale.silenceMs / 60_000);
    const rest = memoryMiB(daemon.pid).rss;
    stopMs = (await daemon.stop()).ms;
    return [
      {
        what: `${scale.connections} connections: create of the first touch, p50`,
        value: median(first),
        unit: "ms",
        peer: 1.15,
      },
      { what: "  memory that they add", value: after - before, unit: "MiB", peer: 30, target: 20 },
      { what: "  as many calls on one connection", value: alone, unit: "MiB" },
      { what: "  with the connections, at rest", value: rest - before, unit: "MiB" },
      { what: "  log in an idle minute", value: chatter / 1000, unit: "kB", peer: 616, target: 0 },
    ];
  });
  return [...figures, { what: "  stop", value: stopMs / 1000, unit: "s", peer: 1.6, target: 0.3 }];
}

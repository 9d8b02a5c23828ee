import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { below } from "../../scripts/check/below.ts";
import { byNode, deployCentral, drivers, namespace, undeploy } from "./deploy.ts";
import { apply, bound, eventually, kube, list, type Resource, remove, running } from "./kube.ts";
import { claim, pod, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";

// Measures memory and times. The bounds are wide: exceeding one means that something is broken.
const say = (line: string): void => void process.stdout.write(`    ${line}\n`);

/** The memory of a pod's containers, in bytes. */
interface Memory {
  readonly container: string;
  /** The working set as kubelet defines it: charged memory without file cache that the kernel can drop. */
  readonly workingSet: bigint;
  readonly anonymous: bigint;
}

const cgroups = "/sys/fs/cgroup/memory/csimux-cluster";

async function memoryOf(container: string, folder: string): Promise<Memory> {
  const stat = await readFile(join(folder, "memory.stat"), "utf8");
  const figure = (name: string): bigint => BigInt(new RegExp(`^${name} (\\d+)$`, "m").exec(stat)?.[1] ?? 0);
  const usage = BigInt((await readFile(join(folder, "memory.usage_in_bytes"), "utf8")).trim());
  return { container, workingSet: usage - figure("total_inactive_file"), anonymous: figure("total_rss") };
}

/** The memory of each container of a pod (cgroup v1). */
async function memory({ status }: Resource): Promise<readonly Memory[]> {
  const all = below(cgroups).map(name => join(cgroups, name));
  const containers = status.containerStatuses as { name: string; containerID: string }[];
  return Promise.all(
    containers.map(({ name, containerID }) => {
      const folder = all.find(each => each.endsWith(`/${containerID.replace("containerd://", "")}`));
      if (folder === undefined) throw new Error(`${name} has no cgroup`);
      return memoryOf(name, folder);
    }),
  );
}

beforeAll(async () => {
  await deployCentral(byNode);
  await apply(
    storageClass("fast", drivers.central, "fast"),
    storageClass("now", drivers.central, "fast", { volumeBindingMode: "Immediate" }),
  );
});
afterEach(() => tidy());
afterAll(async () => {
  await kube("delete", "storageclass", "fast", "now");
  await undeploy("cluster");
});

const mib = (bytes: bigint): number => Math.round(Number(bytes) / 2 ** 20);
const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

const ready = ({ status }: Resource): boolean =>
  status?.conditions?.some((each: { type: string; status: string }) => each.type === "Ready" && each.status === "True");

test("memory of the pods of csimux with their sidecars, after twenty volumes", async () => {
  const names = Array.from({ length: 20 }, (_, index) => `m${index}`);
  await apply(...names.flatMap(name => [claim(name, "fast"), pod(name, name)]));
  await running(...names);
  await tidy();
  await new Promise(resolve => setTimeout(resolve, 30_000));
  const own = await list("pods", namespace);
  expect(own).toHaveLength(3);
  for (const each of own) {
    const containers = await memory(each);
    const words = containers.map(
      ({ container, workingSet, anonymous }) => `${container} ${mib(workingSet)} (anonymous ${mib(anonymous)})`,
    );
    const all = containers.reduce((sum, { workingSet }) => sum + workingSet, 0n);
    say(`${each.metadata.name}: ${mib(all)} MiB working set: ${words.sort().join(", ")}`);
    expect(mib(all)).toBeLessThan(600);
  }
});

/** Deletes a pod of csimux; returns the milliseconds from the start of its successor until that is ready. */
async function replaced(component: string): Promise<number> {
  const pods = () => list("pods", namespace, "-l", `app.kubernetes.io/component=${component}`);
  const old = await pods();
  await kube("-n", namespace, "delete", "pod", old[0]?.metadata.name ?? "", "--wait=true");
  const fresh = (found: readonly Resource[]) =>
    found.find(({ metadata }) => !old.some(each => each.metadata.uid === metadata.uid));
  const began = await eventually("a new pod starts", 60_000, async () => {
    const started = fresh(await pods())?.status?.startTime;
    return started && Date.parse(started);
  });
  await eventually("it is ready", 120_000, async () => {
    const found = fresh(await pods());
    return found !== undefined && ready(found);
  });
  return Date.now() - began;
}

test("time from the start of a pod of csimux until it is ready", async () => {
  for (const component of ["node", "controller"]) {
    const times = [];
    for (let round = 0; round < 5; round++) times.push(await replaced(component));
    say(
      `${component}: ${times.map(ms => (ms / 1000).toFixed(1)).join(", ")} s; median ${(median(times) / 1000).toFixed(1)} s`,
    );
    expect(median(times)).toBeLessThan(60_000);
  }
});

/** Milliseconds until a pod runs. */
async function untilRunning(name: string, ...objects: readonly Resource[]): Promise<number> {
  const began = performance.now();
  await apply(...objects);
  await kube("wait", "pod", name, "-n", "default", "--for=jsonpath={.status.phase}=Running", "--timeout=120s");
  return performance.now() - began;
}

test("time from a claim to its running pod, compared with a bound claim and with no claim", async () => {
  const rounds = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  const fresh: number[] = [];
  const before: number[] = [];
  const without: number[] = [];
  for (const round of rounds) {
    fresh.push(await untilRunning(`new${round}`, claim(`new${round}`, "fast"), pod(`new${round}`, `new${round}`)));
    await apply(claim(`old${round}`, "now"));
    await bound(`old${round}`);
    before.push(await untilRunning(`old${round}`, pod(`old${round}`, `old${round}`)));
    const bare = pod(`bare${round}`, "none", { spec: { volumes: [] }, container: { volumeMounts: [] } });
    without.push(await untilRunning(`bare${round}`, bare));
    await remove("pod", `new${round}`, `old${round}`, `bare${round}`);
  }
  const text = (times: readonly number[]): string => `${(median(times) / 1000).toFixed(2)} s`;
  say(`new claim ${text(fresh)}, bound claim ${text(before)}, no claim ${text(without)} (medians of ${rounds.length})`);
  expect(median(fresh)).toBeLessThan(60_000);
});

import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { say } from "../say.ts";
import { type Spawned, spawned } from "../spawned.ts";
import { FirstProcess, inNamespacesOf, until } from "./first-process.ts";
import { cache, nodeName, state } from "./place.ts";

const machine = new FirstProcess(cache, join(import.meta.dirname, "machine/init.sh"));
const sysctlFile = join(cache, "sysctl");

/** Mount points of the machine, which exist on the host while it runs. */
const mountPoints = ["/var/lib/kubelet", "/var/lib/csimux"] as const;

/** Settings that kubelet changes for the whole kernel; `stopMachine` restores them. */
const sysctls = [
  "vm/overcommit_memory",
  "kernel/panic",
  "kernel/panic_on_oops",
  "kernel/keys/root_maxkeys",
  "kernel/keys/root_maxbytes",
];

/** The first process of the machine; undefined if it is not running. */
export const machinePid = (): Promise<number | undefined> => machine.pid();

/** Runs a program in the machine, with its mounts, network and processes. */
export async function inMachine(argv: readonly string[], timeoutMs = 120_000): Promise<Spawned> {
  const pid = await machinePid();
  if (pid === undefined) throw new Error("the cluster is not running");
  const path = `/run/cluster/bin:${process.env["PATH"]}`;
  return inNamespacesOf(pid, ["env", `PATH=${path}`, ...argv], timeoutMs);
}

async function keepSysctls(): Promise<void> {
  if (existsSync(sysctlFile)) return;
  const lines = [];
  for (const name of sysctls) lines.push(`${name} ${(await readFile(`/proc/sys/${name}`, "utf8")).trim()}`);
  await writeFile(sysctlFile, lines.join("\n"));
}

async function putBackSysctls(): Promise<void> {
  const kept = await readFile(sysctlFile, "utf8").catch(() => "");
  for (const line of kept.split("\n").filter(Boolean)) {
    const [name = "", ...value] = line.split(" ");
    await writeFile(`/proc/sys/${name}`, value.join(" "));
  }
  await rm(sysctlFile, { force: true });
}

/** Starts the machine with the disk in the state folder, or a new one. Resolves when the API answers. */
export async function startMachine(): Promise<void> {
  if ((await machinePid()) !== undefined) return;
  for (const folder of [state, ...mountPoints]) await mkdir(folder, { recursive: true });
  await keepSysctls();
  await machine.start([cache, nodeName]);
  await until("the API of Kubernetes", 180_000, async () => (await kubectl(["get", "--raw", "/readyz"])).code === 0);
}

/** The configuration of the cluster's administrator, on the machine. */
export const kubeconfig = "/run/cluster/state/admin.kubeconfig";

/** Runs kubectl against the cluster. */
export const kubectl = (args: readonly string[], timeoutMs = 120_000): Promise<Spawned> =>
  inMachine(["kubectl", `--kubeconfig=${kubeconfig}`, "--cache-dir=/run/cluster/state/kubectl", ...args], timeoutMs);

/** Waits until the node is ready for pods. */
export async function nodeReady(): Promise<void> {
  const path = '-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}';
  await until(
    "the node is ready",
    180_000,
    async () => (await kubectl(["get", "node", nodeName, path])).stdout === "True",
  );
}

/** Imports the images of an archive into containerd. */
export async function importImages(archive: string): Promise<void> {
  const { code, stderr } = await inMachine(["ctr", "-n", "k8s.io", "images", "import", archive], 300_000);
  if (code !== 0) throw new Error(`${archive} cannot be imported: ${stderr.trim()}`);
}

/** Removes an empty tree of cgroups, in each hierarchy of version 1 or in the only one of version 2. */
export async function removeCgroups(name: string): Promise<void> {
  for (const hierarchy of ["", ...(await readdir("/sys/fs/cgroup"))]) {
    const folder = join("/sys/fs/cgroup", hierarchy, name);
    if (existsSync(folder)) await spawned(["find", folder, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"]);
  }
}

/** Ends the machine like a power cut: all its processes, mounts and networks disappear. */
export const cutPower = (): Promise<void> => machine.end();

/** Ends the machine and removes its state; built programs and images are kept. */
export async function stopMachine(): Promise<void> {
  await cutPower();
  await removeCgroups("csimux-cluster");
  await putBackSysctls();
  await rm(state, { recursive: true, force: true });
  for (const folder of mountPoints) await rmdir(folder).catch(() => say(`${folder} is not empty and stays`));
}

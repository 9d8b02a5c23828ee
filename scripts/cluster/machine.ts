import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, openSync } from "node:fs";
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { say } from "../say.ts";
import { type Spawned, spawned } from "../spawned.ts";
import { cache, nodeName, state } from "./place.ts";

const pidFile = join(cache, "machine.pid");
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

const pause = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms));

/** Polls until the answer is neither undefined nor false. Throws after `ms` milliseconds. */
export async function until<T>(what: string, ms: number, ask: () => Promise<T | undefined | false>): Promise<T> {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (Date.now() > end) throw new Error(`not within ${ms / 1000} s: ${what}`);
    await pause(250);
  }
}

/** The first process of the machine; undefined if it is not running. */
export async function machinePid(): Promise<number | undefined> {
  const pid = Number(await readFile(pidFile, "utf8").catch(() => ""));
  const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return pid > 1 && command.includes("machine/init.sh") ? pid : undefined;
}

/** Runs a program in the machine, with its mounts, network and processes. */
export async function inMachine(argv: readonly string[], timeoutMs = 120_000): Promise<Spawned> {
  const pid = await machinePid();
  if (pid === undefined) throw new Error("the cluster is not running");
  const path = `/run/cluster/bin:${process.env["PATH"]}`;
  return spawned(["nsenter", "-t", String(pid), "-m", "-n", "-p", "-i", "-u", "env", `PATH=${path}`, ...argv], {
    timeoutMs,
  });
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

function launch(): ChildProcess {
  const log = openSync(join(cache, "machine.log"), "a");
  const namespaces = [
    "--fork",
    "--pid",
    "--mount",
    "--net",
    "--ipc",
    "--uts",
    "--propagation",
    "private",
    "--mount-proc",
  ];
  const init = join(import.meta.dirname, "machine/init.sh");
  return spawn("unshare", [...namespaces, "bash", init, cache, nodeName], {
    detached: true,
    stdio: ["ignore", log, log],
  });
}

async function childOf(pid: number): Promise<number | undefined> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  return Number(children.split(" ")[0]) || undefined;
}

/** Starts the machine with the disk in the state folder, or a new one. Resolves when the API answers. */
export async function startMachine(): Promise<void> {
  if ((await machinePid()) !== undefined) return;
  for (const folder of [state, ...mountPoints]) await mkdir(folder, { recursive: true });
  await keepSysctls();
  const unshare = launch();
  unshare.unref();
  const pid = await until("the machine's first process", 10_000, async () => childOf(unshare.pid ?? 0));
  await writeFile(pidFile, String(pid));
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

async function removeCgroups(): Promise<void> {
  for (const controller of await readdir("/sys/fs/cgroup")) {
    const folder = `/sys/fs/cgroup/${controller}/csimux-cluster`;
    if (existsSync(folder)) await spawned(["find", folder, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"]);
  }
}

/** Ends the machine like a power cut: all its processes, mounts and networks disappear. */
export async function cutPower(): Promise<void> {
  const pid = await machinePid();
  if (pid === undefined) return;
  process.kill(pid, "SIGKILL");
  await until("the machine has ended", 60_000, async () => !existsSync(`/proc/${pid}`));
  await rm(pidFile, { force: true });
}

/** Ends the machine and removes its state; built programs and images are kept. */
export async function stopMachine(): Promise<void> {
  await cutPower();
  await removeCgroups();
  await putBackSysctls();
  await rm(state, { recursive: true, force: true });
  for (const folder of mountPoints) await rmdir(folder).catch(() => say(`${folder} is not empty and stays`));
}

import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { FirstProcess, inNamespacesOf, until } from "../cluster/first-process.ts";
import { removeCgroups } from "../cluster/machine.ts";
import { processesBelow } from "../cluster/processes.ts";
import type { Spawned } from "../spawned.ts";
import { built, type Client, cache, clientNames, state } from "./place.ts";

const machine = new FirstProcess(cache, join(import.meta.dirname, "machine/init.sh"));

/** The first process of the machine; undefined if it is not running. */
export const machinePid = (): Promise<number | undefined> => machine.pid();

/** The first process of a client, by its id on this machine; undefined if the client is off. */
export async function clientPid(client: Client): Promise<number | undefined> {
  const all = await processesBelow(await machinePid());
  return all.find(
    ({ command }) => command.startsWith("bash ") && command.endsWith(`/client.sh ${state} ${built.nomad} ${client}`),
  )?.pid;
}

async function inProcess(pid: number | undefined, argv: readonly string[], timeoutMs: number): Promise<Spawned> {
  if (pid === undefined) throw new Error("Nomad's machine, or this client of it, is not running");
  return inNamespacesOf(pid, argv, timeoutMs);
}

/** Runs a program on the server's machine. */
export const inMachine = async (argv: readonly string[], timeoutMs = 120_000): Promise<Spawned> =>
  inProcess(await machinePid(), argv, timeoutMs);

/** Runs a program on a client, with its mounts and processes. */
export const inClient = async (client: Client, argv: readonly string[], timeoutMs = 120_000): Promise<Spawned> =>
  inProcess(await clientPid(client), argv, timeoutMs);

/** Runs Nomad's command line against the server. */
export const nomadCommand = (args: readonly string[], timeoutMs = 120_000): Promise<Spawned> =>
  inMachine(["env", "NOMAD_CLI_SHOW_HINTS=false", built.nomad, ...args], timeoutMs);

interface Node {
  readonly Name: string;
  readonly Status: string;
  readonly Drivers: Readonly<Record<string, { readonly Healthy: boolean }>> | null;
}

/** Waits until these clients are ready and have a healthy Docker. */
export async function clientsReady(...names: readonly Client[]): Promise<void> {
  await until(`${names.join(" and ")} are ready`, 180_000, async () => {
    const { code, stdout } = await nomadCommand(["operator", "api", "/v1/nodes"]);
    if (code !== 0) return false;
    const nodes = JSON.parse(stdout) as readonly Node[];
    return names.every(name =>
      nodes.some(each => each.Name === name && each.Status === "ready" && each.Drivers?.["docker"]?.Healthy === true),
    );
  });
}

/** Starts the machine with the disk in the state folder, or a new one. Resolves when all clients are ready. */
export async function startMachine(): Promise<void> {
  await mkdir(state, { recursive: true });
  if ((await machinePid()) === undefined) await machine.start([state, built.nomad, ...clientNames]);
  await clientsReady(...clientNames);
}

/** Ends the machine and removes its state; the built program is kept. */
export async function stopMachine(): Promise<void> {
  await machine.end();
  await until("the cgroups are empty", 30_000, async () => {
    await removeCgroups("csimux-nomad");
    return !existsSync("/sys/fs/cgroup/pids/csimux-nomad") && !existsSync("/sys/fs/cgroup/csimux-nomad");
  });
  await rm(state, { recursive: true, force: true });
}

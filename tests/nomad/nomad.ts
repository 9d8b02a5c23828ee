import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { until } from "../../scripts/cluster/first-process.ts";
import { nomadCommand } from "../../scripts/nomad/machine.ts";
import { state } from "../../scripts/nomad/place.ts";

/** Waits for something of Nomad, at most two minutes. */
export const eventually = <T>(what: string, ask: () => Promise<T | undefined | false>, ms = 120_000): Promise<T> =>
  until(what, ms, ask);

/** Runs Nomad's command line; throws its error output. */
export async function nomad(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await nomadCommand(args, 300_000);
  if (code !== 0) throw new Error(`nomad ${args.join(" ").slice(0, 200)}: ${stderr.trim() || stdout.trim()}`);
  return stdout;
}

/** The error of a command that must fail. */
export async function refusal(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await nomadCommand(args, 300_000);
  if (code === 0) throw new Error(`nomad ${args.join(" ")} succeeded: ${stdout}`);
  return (stderr || stdout).replaceAll(/\s+/g, " ");
}

/** An answer of Nomad's HTTP API; undefined for 404. */
export async function api<T>(path: string): Promise<T | undefined> {
  const { code, stdout, stderr } = await nomadCommand(["operator", "api", path]);
  // Nomad prints errors of the server without an exit code.
  if (code === 0 && /^[[{]|^null/.test(stdout)) return JSON.parse(stdout) as T;
  if (/\b404\b|not found/i.test(stdout + stderr)) return undefined;
  throw new Error(`${path}: ${(stderr || stdout).trim()}`);
}

/** A file for Nomad's command line, which exists during the call. */
export async function withFile<T>(text: string, use: (file: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(state, "spec-"));
  try {
    const file = join(folder, "spec.nomad.hcl");
    await writeFile(file, text);
    return await use(file);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** An allocation as `/v1/job/:id/allocations` lists it. */
export interface Allocation {
  readonly ID: string;
  readonly Name: string;
  readonly NodeName: string;
  readonly ClientStatus: string;
  readonly DesiredStatus: string;
  readonly CreateIndex: number;
  readonly TaskStates: Readonly<
    Record<string, { readonly Events: readonly { readonly DisplayMessage: string }[] }>
  > | null;
}

/** The allocations of a job, the newest first. */
export async function allocations(job: string): Promise<readonly Allocation[]> {
  const all = (await api<readonly Allocation[]>(`/v1/job/${job}/allocations?all=true`)) ?? [];
  return [...all].sort((a, b) => b.CreateIndex - a.CreateIndex);
}

/** What Nomad tells about the tasks of an allocation. */
const eventsOf = ({ TaskStates }: Allocation): string =>
  Object.values(TaskStates ?? {})
    .flatMap(({ Events }) => Events.map(({ DisplayMessage }) => DisplayMessage))
    .join("; ");

/** Starts a job or a new version of it. */
export const run = (job: string): Promise<string> => withFile(job, file => nomad("job", "run", "-detach", file));

const wanted = ({ DesiredStatus }: Allocation): boolean => DesiredStatus === "run";

/** Waits until this number of allocations of a job run. Throws at once if one has failed, with the events of its tasks. */
export function running(job: string, count = 1): Promise<readonly Allocation[]> {
  return eventually(`${job} runs`, async () => {
    const all = (await allocations(job)).filter(wanted);
    const failed = all.find(({ ClientStatus }) => ClientStatus === "failed");
    if (failed) throw new Error(`${job} failed on ${failed.NodeName}: ${eventsOf(failed)}`);
    const up = all.filter(({ ClientStatus }) => ClientStatus === "running");
    return up.length === count && all.length === count && up;
  });
}

/** Waits until an allocation of a job has failed; returns the events of its tasks. */
export const failing = (job: string): Promise<string> =>
  eventually(`${job} fails`, async () => {
    const failed = (await allocations(job)).find(({ ClientStatus }) => ClientStatus === "failed");
    return failed && eventsOf(failed);
  });

/** Runs a shell command in the task "t" of a job's newest allocation that runs, or of a given allocation. */
export async function inTask(job: string, command: string, allocation?: string): Promise<string> {
  const id = allocation ?? (await running(job))[0]?.ID ?? "";
  return nomad("alloc", "exec", "-i=false", "-t=false", "-task=t", id, "sh", "-c", command);
}

const ended = ({ ClientStatus }: Allocation): boolean => /^(?:complete|failed|lost)$/.test(ClientStatus);

/** Stops jobs and waits until their tasks have ended. */
export async function stop(...jobs: readonly string[]): Promise<void> {
  for (const job of jobs) await nomad("job", "stop", "-detach", job);
  for (const job of jobs) await eventually(`${job} has ended`, async () => (await allocations(job)).every(ended));
}

/** The ids of all jobs that are not dead. */
export async function jobs(): Promise<readonly string[]> {
  const all = (await api<readonly { readonly ID: string; readonly Status: string }[]>("/v1/jobs")) ?? [];
  return all.filter(({ Status }) => Status !== "dead").map(({ ID }) => ID);
}

/** The id of a client. */
export async function nodeId(name: string): Promise<string> {
  const nodes = (await api<readonly { readonly ID: string; readonly Name: string }[]>("/v1/nodes")) ?? [];
  const found = nodes.find(each => each.Name === name);
  if (!found) throw new Error(`no client ${name}`);
  return found.ID;
}

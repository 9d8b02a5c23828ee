import { readdir, readFile } from "node:fs/promises";
import { machinePid } from "../../scripts/cluster/machine.ts";

/** A process of the cluster's machine, by its id on the host. */
export interface Process {
  readonly pid: number;
  readonly command: string;
  /** Its cgroups; a container's cgroups name its pod. */
  readonly cgroup: string;
}

const read = (path: string): Promise<string> => readFile(path, "utf8").catch(() => "");

async function parents(): Promise<ReadonlyMap<number, number>> {
  const pids = (await readdir("/proc")).map(Number).filter(pid => pid > 0);
  const found = await Promise.all(
    pids.map(async pid => [pid, Number(/\) \S (\d+)/.exec(await read(`/proc/${pid}/stat`))?.[1])] as const),
  );
  return new Map(found);
}

/** All processes of the machine: descendants of its first process. */
export async function processes(): Promise<readonly Process[]> {
  const machine = await machinePid();
  const parent = await parents();
  const below = (pid: number): boolean => {
    for (let at: number | undefined = pid; at !== undefined && at > 1; at = parent.get(at))
      if (at === machine) return true;
    return false;
  };
  return Promise.all(
    [...parent.keys()].filter(below).map(async pid => {
      const [command, cgroup] = await Promise.all([read(`/proc/${pid}/cmdline`), read(`/proc/${pid}/cgroup`)]);
      return { pid, command: command.replaceAll("\0", " ").trim(), cgroup };
    }),
  );
}

/** csimux processes in pods of a kind, without tini. */
export async function csimux(mode: "controller" | "node"): Promise<readonly Process[]> {
  const all = await processes();
  return all.filter(
    ({ command }) => /^\/usr\/local\/bin\/csimux serve /.test(command) && command.includes(`--mode=${mode}`),
  );
}

/** Kills processes, and returns how many existed. */
export function kill(victims: readonly Process[]): number {
  let met = 0;
  for (const { pid } of victims) {
    try {
      process.kill(pid, "SIGKILL");
      met++;
    } catch {
      // It had already ended.
    }
  }
  return met;
}

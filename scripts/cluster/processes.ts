import { readdir, readFile } from "node:fs/promises";

/** A process of a machine in namespaces, by its id on the host. */
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

/** A process and its descendants; none if it is undefined. */
export async function processesBelow(first: number | undefined): Promise<readonly Process[]> {
  const parent = await parents();
  const below = (pid: number): boolean => {
    for (let at: number | undefined = pid; at !== undefined && at > 1; at = parent.get(at))
      if (at === first) return true;
    return false;
  };
  return Promise.all(
    [...parent.keys()].filter(below).map(async pid => {
      const [command, cgroup] = await Promise.all([read(`/proc/${pid}/cmdline`), read(`/proc/${pid}/cgroup`)]);
      return { pid, command: command.replaceAll("\0", " ").trim(), cgroup };
    }),
  );
}

/** Sends processes a signal, and returns how many existed. */
export function send(signal: "SIGKILL" | "SIGSTOP", processes: readonly Process[]): number {
  let met = 0;
  for (const { pid } of processes) {
    try {
      process.kill(pid, signal);
      met++;
    } catch {
      // It had already ended.
    }
  }
  return met;
}

/** Kills processes, and returns how many existed. */
export const kill = (victims: readonly Process[]): number => send("SIGKILL", victims);

import type { Ssh } from "../lab/ssh.ts";

/** What a storage host has spent since it booted. */
interface Spent {
  /** CPU time of all its processors in milliseconds (proc(5), /proc/stat: a tick is 10 ms). */
  readonly cpuMs: number;
  /** Processes that were started. */
  readonly processes: number;
}

async function spent(ssh: Ssh): Promise<Spent> {
  const { stdout } = await ssh.run(["cat", "/proc/stat"]);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = (/^cpu +(.*)$/m.exec(stdout)?.[1] ?? "")
    .split(" ")
    .map(Number);
  const processes = Number(/^processes (\d+)$/m.exec(stdout)?.[1]);
  return { cpuMs: (user + nice + system + irq + softirq) * 10, processes };
}

/** What equal pieces of work cost: the time of each in milliseconds, and what the host spent on one. */
export interface Cost {
  readonly times: readonly number[];
  readonly cpuMs: number;
  readonly processes: number;
}

/** Does pieces of work one after another. */
export async function costOf(ssh: Ssh, works: readonly (() => Promise<unknown>)[]): Promise<Cost> {
  const before = await spent(ssh);
  const times: number[] = [];
  for (const work of works) {
    const from = performance.now();
    await work();
    times.push(performance.now() - from);
  }
  const after = await spent(ssh);
  const each = (key: keyof Spent): number => (after[key] - before[key]) / Math.max(1, works.length);
  return { times, cpuMs: each("cpuMs"), processes: each("processes") };
}

/** Several measurements of the same work as one. */
export function together(costs: readonly Cost[]): Cost {
  const mean = (key: "cpuMs" | "processes"): number =>
    costs.reduce((sum, cost) => sum + cost[key], 0) / Math.max(1, costs.length);
  return { times: costs.flatMap(({ times }) => times), cpuMs: mean("cpuMs"), processes: mean("processes") };
}

/** The time that so much of the work, from 0 to 1, took at most. */
export function percentile({ times }: Cost, share: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

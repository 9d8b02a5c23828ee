import { cpuMs } from "./process.ts";

/** The middle value; NaN of nothing. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  if (sorted.length % 2 === 1) return sorted[Math.floor(middle)] ?? Number.NaN;
  return ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2;
}

/** What a closed loop of equal operations took. */
export interface Load {
  /** Milliseconds of each operation. */
  readonly times: readonly number[];
  readonly perSecond: number;
  /** CPU milliseconds of the server for each operation. */
  readonly cpu: number;
}

/** Does `count` operations with `workers` of them in flight, and looks at the CPU time of the server before and after. */
export async function load(
  pid: number,
  count: number,
  workers: number,
  operation: (index: number) => Promise<unknown>,
): Promise<Load> {
  const times: number[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) {
      const from = performance.now();
      await operation(index);
      times.push(performance.now() - from);
    }
  };
  const cpu = cpuMs(pid);
  const from = performance.now();
  await Promise.all(Array.from({ length: workers }, work));
  const seconds = (performance.now() - from) / 1000;
  return { times, perSecond: count / seconds, cpu: (cpuMs(pid) - cpu) / count };
}

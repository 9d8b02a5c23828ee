import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** Milliseconds of one tick of /proc/<pid>/stat. */
const tickMs = 1000 / Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

/** utime, stime, cutime and cstime of proc(5), in ticks. */
function ticks(pid: number): readonly [own: number, children: number] {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const field = (number: number): number => Number(fields[number - 3]);
  return [field(14) + field(15), field(16) + field(17)];
}

/** What the scheduler counted for the threads alive, in nanoseconds: finer than a tick, blind to threads that ended. */
function scheduled(pid: number): number {
  return readdirSync(`/proc/${pid}/task`)
    .map(task => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]))
    .reduce((sum, nanoseconds) => sum + nanoseconds, 0);
}

/** CPU time of a process in milliseconds, user and system, finished children included. */
export function cpuMs(pid: number): number {
  const [own, children] = ticks(pid);
  return Math.max(own * tickMs, scheduled(pid) / 1e6) + children * tickMs;
}

/** Resident memory in MiB: all of it, and with shared pages divided among their users. */
export function memoryMiB(pid: number): { readonly rss: number; readonly pss: number } {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const kib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? Number.NaN);
  return { rss: kib("Rss") / 1024, pss: kib("Pss") / 1024 };
}

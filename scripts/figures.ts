import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** One line of a table of figures. Peer and target are absent if there is nothing to compare with. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** What csimux is compared with: bare commands, or the unmerged proxy of democratic-csi on the same kind of machine. */
  readonly peer?: number;
  /** The largest value that is good enough. */
  readonly target?: number;
}

/** A value with as many digits as matter. */
export const shownNumber = (value: number): string => {
  if (!Number.isFinite(value)) return "-";
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
  return value.toPrecision(value < 1 ? 2 : 3);
};

const cells = ({ what, value, unit, peer, target }: Figure): readonly string[] => [
  what,
  `${shownNumber(value)} ${unit}`,
  peer === undefined ? "" : `${shownNumber(peer)} ${unit}`,
  peer === undefined ? "" : `${(value / peer).toFixed(2)} x`,
  target === undefined ? "" : `<= ${shownNumber(target)} ${unit} ${value <= target ? "reached" : "MISSED"}`,
];

/** The figures as a table, one on each line. */
export function table(figures: readonly Figure[]): string {
  const head = ["figure", "csimux", "peer", "ratio", "target"];
  const rows = [head, ...figures.map(cells)];
  const widths = head.map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0)));
  const padded = (cell: string, column: number): string =>
    column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0);
  const [first = "", ...body] = rows.map(row => row.map(padded).join(" | "));
  return [first, widths.map(width => "-".repeat(width)).join("-|-"), ...body].join("\n");
}

/** The middle value; NaN if there is none. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

/** Milliseconds of one tick of /proc/<pid>/stat. */
const tickMs = 1000 / Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

/** The CPU time of a process in milliseconds, user and system, ended children included (proc(5), stat and schedstat). */
export function cpuMs(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const ticks = (first: number): number => Number(fields[first - 3]) + Number(fields[first - 2]);
  // Finer than ticks, but without threads that have ended.
  const scheduled = readdirSync(`/proc/${pid}/task`)
    .map(task => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]))
    .reduce((sum, nanoseconds) => sum + nanoseconds, 0);
  return Math.max(ticks(14) * tickMs, scheduled / 1e6) + ticks(16) * tickMs;
}

/** The resident memory of a process in MiB; "Pss" divides shared pages among their users. */
export function memoryMiB(pid: number, which: "Rss" | "Pss" = "Rss"): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return Number(new RegExp(`^${which}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? Number.NaN) / 1024;
}

/** The result of a closed loop of equal operations. */
export interface Load {
  /** The time of each operation in milliseconds. */
  readonly times: readonly number[];
  readonly perSecond: number;
  /** CPU milliseconds of the server per operation. */
  readonly cpu: number;
}

/** Does `count` operations, `atOnce` of them at the same time, and measures the CPU time of the server. */
export async function load(
  pid: number,
  count: number,
  atOnce: number,
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
  await Promise.all(Array.from({ length: atOnce }, work));
  return { times, perSecond: (1000 * count) / (performance.now() - from), cpu: (cpuMs(pid) - cpu) / count };
}

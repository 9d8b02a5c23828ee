import { readdirSync, readFileSync } from "node:fs";
import type { Argv } from "../../lib/io/runner.ts";

/**
 * Linux ignores the limit of file locks since 2.4.25 (getrlimit(2), RLIMIT_LOCKS), and every process inherits it: also those of an
 * sshd, which get new variables, and daemons, which have left their parent. So a value that has no other use marks them all.
 */
const limit = /^Max file locks +(\d+) /m;

/** A command of which every process has this mark, a positive integer. */
export const marked = (mark: number, argv: Argv): Argv => ["prlimit", `--locks=${mark}:`, "--", ...argv];

const read = (path: string): string => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // It has ended meanwhile.
    return "";
  }
};

/** A running process. */
export interface Running {
  readonly pid: number;
  /** Its arguments, or its name where it has none. */
  readonly command: string;
}

function running(pid: string): Running | undefined {
  const state = /^State:\s+(\w)/m.exec(read(`/proc/${pid}/status`))?.[1];
  if (state === undefined || state === "Z" || state === "X") return undefined;
  const command = read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim() || read(`/proc/${pid}/comm`).trim();
  return { pid: Number(pid), command };
}

/** The running processes with a mark. */
export const withMark = (mark: number): readonly Running[] =>
  readdirSync("/proc")
    .filter(name => /^\d+$/.test(name) && limit.exec(read(`/proc/${name}/limits`))?.[1] === String(mark))
    .flatMap(name => running(name) ?? []);

/** Ends all processes with a mark at once. */
export function killMarked(mark: number): void {
  for (const { pid } of withMark(mark)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended meanwhile.
    }
  }
}

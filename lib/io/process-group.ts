import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { kill } from "node:process";
import type { Argv } from "./runner.ts";

/** The pause between SIGTERM and SIGKILL, in milliseconds. */
export const graceMs = 1_000;

/** How long output may stay silent after a program has ended while its children still hold its pipes, in milliseconds. */
export const drainMs = 500;

/** Starts a program in its own process group with exactly this environment. Throws what spawn(2) refuses at once. */
export const startGroup = (argv: Argv, env: Readonly<Record<string, string>>, stdio: StdioOptions): ChildProcess =>
  spawn(argv[0], argv.slice(1), { detached: true, env: { ...env }, stdio });

/** Ends a program and everything that it started. The caller knows that it has not been waited for: its number may be reused then. */
export function killGroup(child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): void {
  if (child.pid === undefined) return;
  try {
    kill(-child.pid, signal);
  } catch {
    // The group has already ended.
  }
}

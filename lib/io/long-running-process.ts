import { spawn } from "node:child_process";
import { kill } from "node:process";
import type { Argv } from "./runner.ts";

/** A long-running program with open standard streams. */
export interface LongRunningProcess {
  /** Its process id; undefined if it could not be started. */
  readonly pid: number | undefined;
  write(text: string): void;
  /** Kills it and everything that it started; no effect once it has ended, when its process id may have been reused. */
  kill(): void;
  /** Resolves when it has ended and its streams are read: "exit code 255", "SIGKILL", or why it could not start. */
  readonly ended: Promise<string>;
}

/** Receives the output of a standing program. */
export interface OutputListener {
  stdout(chunk: Uint8Array): void;
  stderr(chunk: Uint8Array): void;
}

/** Starts a program in its own process group with exactly this environment. Never throws: see `ended`. */
export function startProcess(
  argv: Argv,
  env: Readonly<Record<string, string>>,
  listener: OutputListener,
): LongRunningProcess {
  const child = spawn(argv[0], argv.slice(1), { detached: true, env: { ...env }, stdio: ["pipe", "pipe", "pipe"] });
  let over = false;
  const ended = new Promise<string>(resolve => {
    child.on("error", error => resolve(`could not be started: ${error.message}`));
    child.on("close", (code, signal) => {
      over = true;
      resolve(signal ?? `exit code ${code}`);
    });
  });
  child.stdin.on("error", () => {});
  child.stdout.on("data", (chunk: Uint8Array) => listener.stdout(chunk));
  child.stderr.on("data", (chunk: Uint8Array) => listener.stderr(chunk));
  return {
    pid: child.pid,
    write: text => void child.stdin.write(text),
    kill() {
      try {
        if (child.pid !== undefined && !over) kill(-child.pid, "SIGKILL");
      } catch {
        // The group has already ended.
      }
    },
    ended,
  };
}

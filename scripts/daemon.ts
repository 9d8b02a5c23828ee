import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Argv } from "../lib/io/runner.ts";
import { type Sandbox, zoneEnvironment } from "./sandbox.ts";

/** A running csimux that serves a sandbox. */
export interface Daemon {
  readonly pid: number;
  /** The log so far. */
  log(): Promise<string>;
  /** Sends SIGTERM, and SIGKILL after 30 s; returns the exit code and the duration in milliseconds. */
  stop(): Promise<{ readonly code: number | undefined; readonly ms: number }>;
}

/** How to start csimux on a sandbox. */
export interface DaemonOptions {
  /** The executable, or a runtime with a script. */
  readonly command: Argv;
  readonly sandbox: Sandbox;
  readonly env?: Readonly<Record<string, string>>;
  /** Further flags of `serve`. */
  readonly flags?: readonly string[];
  /** The interval of attempts to connect, in milliseconds; 20 if absent. */
  readonly pollMs?: number;
  /** The time limit of the start, in milliseconds; 20 seconds if absent. */
  readonly startMs?: number;
}

/** The arguments of a csimux that serves a sandbox. */
export const serveArguments = ({ socket, config, stateDir }: Sandbox): readonly string[] => [
  ...["serve", "--endpoint", `unix://${socket}`, "--config", config, "--mode", "controller,node"],
  ...["--name", "csimux.example", "--state-dir", stateDir, "--log-level", "info", "--log-format", "json"],
];

/** Whether a process listens on a Unix socket. */
export function connects(socket: string): Promise<boolean> {
  return new Promise(resolve => {
    const connection = connect({ path: socket });
    const answer = (value: boolean) => {
      connection.destroy();
      resolve(value);
    };
    connection.once("connect", () => answer(true));
    connection.once("error", () => answer(false));
  });
}

/** Starts csimux without waiting; its output goes to `csimux.log` in the sandbox. */
function spawnDaemon({ command, sandbox, env, flags = [] }: DaemonOptions): {
  readonly child: ChildProcess;
  readonly logFile: string;
} {
  const logFile = join(sandbox.folder, "csimux.log");
  const log = openSync(logFile, "a");
  const [program, ...args] = [...command, ...serveArguments(sandbox), ...flags];
  const child = spawn(program ?? "", args, {
    stdio: ["ignore", log, log],
    env: { ...process.env, ...zoneEnvironment, CSI_NODE_ID: hostname(), ...env },
  });
  closeSync(log);
  return { child, logFile };
}

/** Starts csimux and waits until its socket accepts connections; throws with its log if that takes too long. */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { child, logFile } = spawnDaemon(options);
  const ended = new Promise<number | undefined>(resolve => {
    child.once("exit", code => resolve(code ?? undefined));
    child.once("error", () => resolve(undefined));
  });
  let gone = false;
  void ended.then(() => {
    gone = true;
  });
  const log = () => readFile(logFile, "utf8").catch(() => "");
  const deadline = Date.now() + (options.startMs ?? 20_000);
  while (!(await connects(options.sandbox.socket))) {
    if (gone || Date.now() > deadline) {
      child.kill("SIGKILL");
      throw new Error(`csimux did not start listening:\n${await log()}`);
    }
    await pause(options.pollMs ?? 20);
  }
  const stop = async () => {
    const from = performance.now();
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 30_000);
    const code = await ended;
    clearTimeout(timer);
    return { code, ms: performance.now() - from };
  };
  return { pid: child.pid ?? 0, log, stop };
}

import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { kill } from "node:process";
import type { Readable, Writable } from "node:stream";
import type { Argv } from "./runner.ts";

/** The pause between SIGTERM and SIGKILL, in milliseconds. */
const graceMs = 1_000;

/** How long output may stay silent after a program has ended while its children still hold its pipes, in milliseconds. */
const drainMs = 500;

/** How a program ended: its exit code, or the signal that ended it. */
interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
}

/** A program in a process group of its own, which is ended as a whole. */
export interface ProcessGroup {
  /** Undefined if it could not be started. */
  readonly pid: number | undefined;
  readonly stdin: Writable | null;
  /** Resolves when it has ended and its output is read; undefined if it survives SIGKILL. Rejects if it could not be started. */
  readonly ended: Promise<Exit | undefined>;
  /**
   * Ends it with SIGTERM, and with SIGKILL what is left of it after a second. Returns false if it has ended already; then what it started
   * lives on, but `ended` no longer waits for a pause in its output.
   */
  stop(): boolean;
  /** Kills it; no effect once it has ended, when its number may be reused. */
  kill(): void;
}

/** Receives a part of an output. The next one is read from the program once a returned promise has settled. */
export type Reader = (chunk: Uint8Array) => void | Promise<void>;

/** Starts a program with exactly this environment. Throws what spawn(2) refuses at once. */
export function startGroup(
  argv: Argv,
  env: Readonly<Record<string, string>>,
  stdio: StdioOptions,
  stdout: Reader,
  stderr: Reader,
): ProcessGroup {
  const child = spawn(argv[0], argv.slice(1), { detached: true, env: { ...env }, stdio });
  const { promise: ended, resolve, reject } = Promise.withResolvers<Exit | undefined>();
  let exit: Exit | undefined;
  let [isStopped, isOver, isLast] = [false, false, false];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const again = (ms: number, work: () => void): void => {
    clearTimeout(timer);
    timer = setTimeout(work, ms);
  };
  const finish = (failure?: unknown): void => {
    clearTimeout(timer);
    isOver = true;
    child.stdout?.destroy();
    child.stderr?.destroy();
    if (failure === undefined) resolve(exit);
    else reject(failure);
  };
  let isHeld = false;
  // What a reader holds back is not silence.
  const drain = (): void => (isHeld && !isStopped ? clearTimeout(timer) : again(drainMs, finish));
  const read = (from: Readable | null, reader: Reader) => (chunk: Uint8Array) => {
    if (exit && !isStopped && !isOver && !isLast) drain();
    const taken = reader(chunk);
    if (!taken) return;
    isHeld = true;
    if (exit && !isStopped) clearTimeout(timer);
    from?.pause();
    void taken.finally(() => {
      isHeld = false;
      from?.resume();
      if (exit && !isOver) drain();
    });
  };
  // A program may end without reading its input; how it ends reports the outcome, not a write error.
  child.stdin?.on("error", () => {});
  child.stdout?.on("data", read(child.stdout, stdout));
  child.stderr?.on("data", read(child.stderr, stderr));
  child.on("error", finish);
  child.on("exit", (code, signal) => {
    exit = { code, signal };
    if (isStopped) killGroup(child, "SIGKILL");
    drain();
  });
  child.on("close", () => finish());
  return {
    ...{ pid: child.pid, stdin: child.stdin, ended },
    stop() {
      if (isOver) return false;
      if (isStopped) return true;
      if (exit) {
        // A daemon that it has left behind may write forever. What a reader holds back is still waited for.
        if (!isHeld && !isLast) drain();
        isLast = !isHeld;
        return false;
      }
      isStopped = true;
      killGroup(child, "SIGTERM");
      again(graceMs, () => {
        killGroup(child, "SIGKILL");
        again(graceMs, finish);
      });
      return true;
    },
    kill() {
      if (!isOver) killGroup(child, "SIGKILL");
    },
  };
}

/** Signals a program and everything that it started. The caller knows that it has not been waited for: its number may be reused then. */
function killGroup(child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): void {
  if (child.pid === undefined) return;
  try {
    kill(-child.pid, signal);
  } catch {
    // The group has already ended.
  }
}

import type { ChildProcess } from "node:child_process";
import { Capture } from "./capture.ts";
import { drainMs, graceMs, killGroup, startGroup } from "./process-group.ts";
import type { Argv, Child, ChildStreams, CommandError, CommandFailure, Output } from "./runner.ts";

/** What starts a child on this machine. */
export interface ChildStart {
  readonly argv: Argv;
  /** The complete environment of the program. */
  readonly env: Readonly<Record<string, string>>;
  readonly streams: ChildStreams;
  /** Makes the error of a child without an exit code. */
  fail(failure: CommandFailure, reason: string, cause?: unknown): CommandError;
}

/**
 * Starts a program in its own process group. The kernel kills it when this process ends for any reason (setpriv(1), --pdeathsig; not
 * a set-user-ID program such as sudo, whose neighbour in the pipe ends it). Aborting `signal` ends it. Rejects with CommandError if
 * it could not be started.
 */
export async function startChild(start: ChildStart, signal: AbortSignal): Promise<Child> {
  const { argv, env, streams, fail } = start;
  if (signal.aborted) throw fail("cancelled", "not started, because the call has ended");
  const stdin = streams.stdin ?? "ignore";
  const guarded: Argv = ["setpriv", "--pdeathsig", "KILL", ...argv];
  const child = startGroup(guarded, env, [stdin, streams.stdout ?? "pipe", "pipe"]);
  let stopped: CommandError | undefined;
  const ended = follow(child, start).then(
    output => {
      if (stopped) throw stopped;
      return output;
    },
    error => {
      throw stopped ?? error;
    },
  );
  ended.catch(() => {});
  if (child.pid === undefined) {
    await ended;
    throw fail("spawn", "could not be started");
  }
  let over = false;
  const end = async (): Promise<void> => {
    if (over) return;
    stopped ??= fail("cancelled", signal.aborted ? "ended, because the call has ended" : "ended");
    child.once("exit", () => killGroup(child, "SIGKILL"));
    killGroup(child, "SIGTERM");
    const timer = setTimeout(() => killGroup(child, "SIGKILL"), graceMs);
    await ended.catch(() => {});
    clearTimeout(timer);
  };
  const cancel = (): void => void end();
  signal.addEventListener("abort", cancel, { once: true });
  const done = (): void => {
    over = true;
    signal.removeEventListener("abort", cancel);
  };
  ended.then(done, done);
  return { pid: child.pid, ended, end };
}

/** Collects what a child says, and settles when it has ended. */
function follow(child: ChildProcess, { streams, fail }: ChildStart): Promise<Output> {
  const [stdout, stderr] = [new Capture(), new Capture()];
  child.stdout?.on("data", (chunk: Uint8Array) => stdout.add(chunk));
  child.stderr?.on("data", (chunk: Uint8Array) => {
    stderr.add(chunk);
    streams.stderr?.(chunk);
  });
  return new Promise<Output>((resolve, reject) => {
    let exit: { readonly code: number | null; readonly signal: string | null } | undefined;
    const settle = (): void => {
      child.stdout?.destroy();
      child.stderr?.destroy();
      if (exit?.code === null || exit === undefined)
        reject(fail("killed", `ended by ${exit?.signal ?? "a signal"}: ${stderr.text().trim()}`));
      else resolve({ stdout: stdout.text(), stderr: stderr.text(), exitCode: exit.code });
    };
    let timer: ReturnType<typeof setTimeout> | undefined;
    child.on("error", cause => reject(fail("missing", "setpriv cannot be started; it is part of util-linux", cause)));
    child.on("exit", (code, signal) => {
      exit = { code, signal };
      timer = setTimeout(settle, drainMs);
    });
    child.on("close", () => {
      clearTimeout(timer);
      settle();
    });
  });
}

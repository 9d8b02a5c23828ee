import { Capture } from "./capture.ts";
import { startGroup } from "./process-group.ts";
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
  const [stdout, stderr] = [new Capture(), new Capture()];
  const heard = (chunk: Uint8Array): void => {
    stderr.add(chunk);
    streams.stderr?.(chunk);
  };
  const guarded: Argv = ["setpriv", "--pdeathsig", "KILL", ...argv];
  const out = streams.stdout;
  const stdio = [streams.stdin ?? "ignore", typeof out === "number" ? out : "pipe", "pipe"] as const;
  const read = typeof out === "function" ? out : (chunk: Uint8Array) => stdout.add(chunk);
  const program = startGroup(guarded, env, [...stdio], read, heard);
  let stopped: CommandError | undefined;
  const ended = program.ended.then(
    (exit): Output => {
      if (stopped) throw stopped;
      if (exit?.code == null) throw fail("killed", `ended by ${exit?.signal ?? "a signal"}: ${stderr.text().trim()}`);
      return { stdout: stdout.text(), stderr: stderr.text(), exitCode: exit.code };
    },
    cause => {
      throw stopped ?? fail("missing", "setpriv cannot be started; it is part of util-linux", cause);
    },
  );
  ended.catch(() => {});
  if (program.pid === undefined) {
    await ended;
    throw fail("spawn", "could not be started");
  }
  const end = async (): Promise<void> => {
    if (program.stop()) stopped ??= fail("cancelled", signal.aborted ? "ended, because the call has ended" : "ended");
    await ended.catch(() => {});
  };
  const cancel = (): void => void end();
  signal.addEventListener("abort", cancel, { once: true });
  const done = (): void => signal.removeEventListener("abort", cancel);
  ended.then(done, done);
  return { pid: program.pid, ended, end };
}

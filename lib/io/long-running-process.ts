import { messageOf } from "../core/errors.ts";
import { Capture } from "./capture.ts";
import { startGroup } from "./process-group.ts";
import { type Argv, type BackgroundProcess, CommandError, type CommandFailure } from "./runner.ts";

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
  const stdout = (chunk: Uint8Array) => listener.stdout(chunk);
  const stderr = (chunk: Uint8Array) => listener.stderr(chunk);
  const { pid, stdin, kill, ended } = startGroup(argv, env, ["pipe", "pipe", "pipe"], stdout, stderr);
  return {
    ...{ pid, kill },
    write: text => void stdin?.write(text),
    ended: ended.then(
      exit => exit?.signal ?? `exit code ${exit?.code}`,
      (error: unknown) => `could not be started: ${messageOf(error)}`,
    ),
  };
}

/** The time limit for the program to return a line, in milliseconds. */
const answerMs = 30_000;

/** Like CommandRunner.hold, with `env` as the program's complete environment. */
export async function hold(
  argv: Argv,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<BackgroundProcess> {
  const failed = (failure: CommandFailure, reason: string) => new CommandError("local", argv[0], failure, reason);
  if (signal.aborted) throw failed("cancelled", "not started, because the call has ended");
  const words = new Capture();
  let echoed = (): void => {};
  const stderr = (chunk: Uint8Array) => words.add(chunk);
  const { pid, write, kill, ended } = startProcess(argv, env, { stdout: () => echoed(), stderr });
  const release = async (): Promise<void> => {
    kill();
    await ended;
  };
  /** Writes a line. Resolves with undefined when it comes back, otherwise with why it does not. */
  const answer = async (cancelled?: AbortSignal): Promise<CommandError | undefined> => {
    const { promise, resolve } = Promise.withResolvers<CommandError | undefined>();
    echoed = () => resolve(undefined);
    const failure = (end: string) => (pid === undefined ? "missing" : end.startsWith("SIG") ? "killed" : "denied");
    void ended.then(end => resolve(failed(failure(end), `${end}: ${words.text().trim()}`)));
    const cancel = () => resolve(failed("cancelled", "ended, because the call has ended"));
    const limit = setTimeout(() => resolve(failed("timeout", `no answer within ${answerMs} ms`)), answerMs);
    cancelled?.addEventListener("abort", cancel, { once: true });
    write("\n");
    const error = await promise;
    clearTimeout(limit);
    cancelled?.removeEventListener("abort", cancel);
    return error;
  };
  const error = await answer(signal);
  if (error === undefined && pid !== undefined)
    return { pid, release, answers: async () => (await answer()) === undefined };
  await release();
  throw error;
}

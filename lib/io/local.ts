import { masked } from "../core/secrets.ts";
import { Capture, Data } from "./capture.ts";
import { startChild } from "./child.ts";
import { hold } from "./long-running-process.ts";
import { type ProcessGroup, startGroup } from "./process-group.ts";
import { CommandError, type CommandFailure, type CommandRunner, defaultMaxBytes } from "./runner.ts";

const where = "local";

const defaultTimeoutMs = 30_000;

const started: Readonly<Record<string, { readonly failure: CommandFailure; readonly reason: string }>> = {
  ENOENT: { failure: "missing", reason: "there is no such program" },
  EACCES: { failure: "denied", reason: "permission to execute it is denied" },
  EPERM: { failure: "denied", reason: "permission to execute it is denied" },
  E2BIG: { failure: "spawn", reason: "the arguments are too long" },
};

/**
 * Runs programs on this machine, each in its own process group, which is ended as a whole.
 * `env` is the complete environment of the programs (PATH and whatever else the caller allows), with LC_ALL=C added.
 * Secrets are masked in stderr and in error messages, never in stdout, which is data.
 */
export const localRunner = (options: { readonly env: Readonly<Record<string, string>> }): CommandRunner => ({
  where,
  hold: (argv, signal) => hold(argv, { ...options.env, LC_ALL: "C" }, signal),
  async child(argv, streams, signal) {
    const fail = (failure: CommandFailure, reason: string, cause?: unknown) =>
      new CommandError(where, String(argv[0]), failure, reason, { cause });
    const wrong = unfit(argv);
    if (wrong) throw fail("spawn", wrong);
    return await startChild({ argv, env: { ...options.env, LC_ALL: "C" }, streams, fail }, signal);
  },
  async run(command, signal) {
    const { argv, env } = command;
    const fail = (failure: CommandFailure, reason: string, cause?: unknown): CommandError =>
      new CommandError(where, String(argv[0]), failure, masked(reason, command.secret), { cause });
    const wrong = unfit(argv);
    if (wrong) throw fail("spawn", wrong);
    if (signal.aborted) throw fail("cancelled", "not started, because the call has ended");
    const { maxBytes = defaultMaxBytes, timeoutMs = defaultTimeoutMs, secret } = command;
    const stdout = new Data(maxBytes, command.check?.());
    const stderr = new Capture();
    let stopped: CommandError | undefined;
    const stop = (failure: CommandFailure, reason: string): void => {
      if (program?.stop()) stopped ??= fail(failure, reason);
    };
    const collect = (chunk: Uint8Array): void => {
      const wrong = stopped ? undefined : stdout.add(chunk);
      if (wrong === undefined) return;
      stopped = wrong === "overflow" ? fail(wrong, `wrote more than ${maxBytes} bytes`) : fail("nonsense", wrong);
      program?.stop();
    };
    const cancel = (): void => stop("cancelled", "ended, because the call has ended");
    const limit = setTimeout(() => stop("timeout", `not finished within ${timeoutMs} ms`), timeoutMs);
    signal.addEventListener("abort", cancel, { once: true });
    let program: ProcessGroup | undefined;
    try {
      const stdin = command.stdin === undefined ? "ignore" : "pipe";
      const all = { ...options.env, ...env, LC_ALL: "C" };
      const read = command.onOutput ?? collect;
      program = startGroup(argv, all, [stdin, "pipe", "pipe"], read, chunk => stderr.add(chunk));
      if (command.stdin !== undefined) program.stdin?.end(command.stdin);
      const exit = await program.ended;
      if (stopped) throw stopped;
      if (exit?.code == null) throw fail("killed", `ended by ${exit?.signal ?? "a signal"}`);
      return { stdout: stdout.text(), stderr: masked(stderr.text(), secret), exitCode: exit.code };
    } catch (error) {
      throw error instanceof CommandError ? error : notStarted(error, fail);
    } finally {
      clearTimeout(limit);
      signal.removeEventListener("abort", cancel);
    }
  },
});

type FailureOf = (failure: CommandFailure, reason: string, cause?: unknown) => CommandError;

/** Why an argv must not be run. A value that is not text would otherwise reach the program as the word "undefined". */
function unfit(argv: readonly unknown[]): string | undefined {
  if (argv[0] === undefined || argv[0] === "") return "no program given";
  const bad = argv.findIndex(word => typeof word !== "string" || word.includes("\0"));
  if (bad < 0) return undefined;
  return typeof argv[bad] === "string"
    ? `argument ${bad} contains a NUL`
    : `argument ${bad} is ${typeof argv[bad]}, not text`;
}

function notStarted(cause: unknown, fail: FailureOf): CommandError {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  const known = started[code];
  return known ? fail(known.failure, known.reason, cause) : fail("spawn", `could not be started ${code}`.trim(), cause);
}

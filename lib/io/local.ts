import type { ChildProcess } from "node:child_process";
import { masked } from "../core/secrets.ts";
import { Capture, Data } from "./capture.ts";
import { startChild } from "./child.ts";
import { hold } from "./long-running-process.ts";
import { drainMs, graceMs, killGroup, startGroup } from "./process-group.ts";
import {
  type Command,
  CommandError,
  type CommandFailure,
  type CommandRunner,
  defaultMaxBytes,
  type Output,
} from "./runner.ts";

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
    return await new Promise<Output>((resolve, reject) => {
      try {
        const environment = { ...options.env, ...env, LC_ALL: "C" };
        const stdin = command.stdin === undefined ? "ignore" : "pipe";
        const child = startGroup(argv, environment, [stdin, "pipe", "pipe"]);
        follow(child, command, signal, { resolve, reject, fail });
      } catch (cause) {
        reject(notStarted(cause, fail));
      }
    });
  },
});

type FailureOf = (failure: CommandFailure, reason: string, cause?: unknown) => CommandError;

interface Ends {
  readonly resolve: (output: Output) => void;
  readonly reject: (error: CommandError) => void;
  readonly fail: FailureOf;
}

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

/** Collects the output of a running program and settles once, on whichever comes first. */
function follow(child: ChildProcess, command: Command, signal: AbortSignal, ends: Ends): void {
  const maxBytes = command.maxBytes ?? defaultMaxBytes;
  const stdout = new Data(maxBytes);
  const stderr = new Capture();
  let stopped: CommandError | undefined;
  let exit: { readonly code: number | null; readonly signal: string | null } | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const settle = (result: Output | CommandError): void => {
    clearTimeout(limit);
    clearTimeout(timer);
    signal.removeEventListener("abort", cancel);
    child.stdout?.destroy();
    child.stderr?.destroy();
    if (result instanceof CommandError) ends.reject(result);
    else ends.resolve(result);
  };
  const outcome = (): Output | CommandError => {
    if (stopped) return stopped;
    const exitCode = exit?.code ?? undefined;
    if (exitCode === undefined) return ends.fail("killed", `ended by ${exit?.signal ?? "a signal"}`);
    return { stdout: stdout.text(), stderr: masked(stderr.text(), command.secret), exitCode };
  };
  const finish = (): void => settle(outcome());
  const again = (after: number, work: () => void): void => {
    clearTimeout(timer);
    timer = setTimeout(work, after);
  };
  const stop = (reason: CommandError): void => {
    if (exit || stopped) return;
    stopped = reason;
    killGroup(child, "SIGTERM");
    again(graceMs, () => {
      killGroup(child, "SIGKILL");
      // A program that survives SIGKILL is abandoned.
      again(graceMs, finish);
    });
  };
  const cancel = (): void => stop(ends.fail("cancelled", "ended, because the call has ended"));
  const limitMs = command.timeoutMs ?? defaultTimeoutMs;
  const limit = setTimeout(() => stop(ends.fail("timeout", `not finished within ${limitMs} ms`)), limitMs);

  const late = (): void => {
    if (exit && !stopped) again(drainMs, finish);
  };
  const collect = (chunk: Uint8Array): void => {
    late();
    if (command.onOutput) {
      command.onOutput(chunk);
      return;
    }
    if (stdout.add(chunk)) return;
    const reason = ends.fail("overflow", `wrote more than ${maxBytes} bytes`);
    if (exit) stopped ??= reason;
    else stop(reason);
  };
  signal.addEventListener("abort", cancel, { once: true });
  child.stdout?.on("data", collect);
  child.stderr?.on("data", (chunk: Uint8Array) => {
    stderr.add(chunk);
    late();
  });
  child.on("error", cause => settle(notStarted(cause, ends.fail)));
  child.on("exit", (code, ending) => {
    exit = { code, signal: ending };
    if (stopped) killGroup(child, "SIGKILL");
    clearTimeout(limit);
    again(drainMs, finish);
  });
  child.on("close", finish);
  feed(child, command.stdin);
}

/** A program may end without reading its input; its exit code then reports the outcome, not a write error. */
function feed(child: ChildProcess, text: string | undefined): void {
  child.stdin?.on("error", () => {});
  if (text !== undefined) child.stdin?.end(text);
}

import { type Code, CsiError } from "../core/errors.ts";

/** A program and its arguments, never passed through a shell. */
export type Argv = readonly [string, ...string[]];

/** The default limit of a command's stdout, in bytes. */
export const defaultMaxBytes = 64 * 1024;

/** The time limit of a command whose duration depends on a tree: the longest timer. The signal of the call ends it earlier. */
export const unlimitedMs = 2_147_483_647;

/** A command to execute. */
export interface Command {
  readonly argv: Argv;
  readonly stdin?: string;
  /** Added to the runner's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Secrets that must not be printed. */
  readonly secret?: readonly string[];
  /** Wall-clock limit in milliseconds; 30,000 if absent. The process group is killed when it passes. */
  readonly timeoutMs?: number;
  /** The most bytes that stdout may have; 64 KiB if absent. More is the failure "overflow". */
  readonly maxBytes?: number;
  /**
   * Returns a function, for one run, that gets the lines of stdout as they come. It throws an Error for one that the program cannot have
   * written, which ends the program with the failure "nonsense".
   */
  readonly check?: () => (line: string) => void;
  /** Gets stdout as it comes; Output then has none, and its length has no limit. Only for programs on this machine. */
  readonly onOutput?: (chunk: Uint8Array) => void;
}

/**
 * The output of a finished command, as UTF-8 text. stdout is data and always complete; stderr is cut to its first and
 * last 64 KiB.
 */
export interface Output {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

/** A program that runs until it is released. */
export interface BackgroundProcess {
  /** Its process id on this machine. */
  readonly pid: number;
  /** Whether it still echoes a line; false if it has ended, or does not answer within 30 seconds. One call at a time. */
  answers(): Promise<boolean>;
  /** Ends it; resolves when it has ended. */
  release(): Promise<void>;
}

/**
 * The descriptors of this process that become stdin and stdout of a child, and stay the caller's. Without them stdin is empty and
 * stdout is collected as stderr is: its first and last 64 KiB.
 */
export interface ChildStreams {
  readonly stdin?: number;
  /** Or what receives it: the child gets no further than the promise that is returned, and the bytes that pipes hold. */
  readonly stdout?: number | ((chunk: Uint8Array) => Promise<void>);
  /** Also receives what the child writes to stderr. */
  readonly stderr?: (chunk: Uint8Array) => void;
}

/** A running program whose stdin and stdout pass this process by. It has no time limit, and ends when this process does. */
export interface Child {
  /** The process on this machine: the program, or the ssh(1) that leads to it. */
  readonly pid: number;
  /** Resolves with any exit code; rejects with CommandError if there is none. */
  readonly ended: Promise<Output>;
  /** Ends the process; resolves when it has ended. A program on another machine loses its stdin and stdout. */
  end(): Promise<void>;
}

/** Executes argv arrays somewhere. It does not interpret exit codes; the file that wraps a tool does. */
export interface CommandRunner {
  /** "local", "ssh root@nas"; for logs and errors. */
  readonly where: string;
  /** Resolves with any exit code; rejects with CommandError if the command could not run or was killed. */
  run(command: Command, signal: AbortSignal): Promise<Output>;
  /**
   * Starts a program that echoes its input, such as cat(1) in a namespace, and resolves when it has echoed a line.
   * It ends when released, and when this process ends for any reason, because its input is then closed.
   * Rejects with CommandError, "denied" if the program exited, "killed" if a signal ended it. Absent if programs do not run on this machine.
   */
  readonly hold?: (argv: Argv, signal: AbortSignal) => Promise<BackgroundProcess>;
  /** Like StorageHost.child. */
  readonly child?: (argv: Argv, streams: ChildStreams, signal: AbortSignal) => Promise<Child>;
}

/**
 * Why a command has no exit code: program not found, not executable, time limit passed, cancelled, ended by a signal,
 * not started, too much output, output that it cannot have, no connection to its host, or the connection lost while it ran, so that its outcome is
 * unknown.
 */
export type CommandFailure =
  | "missing"
  | "denied"
  | "timeout"
  | "cancelled"
  | "killed"
  | "spawn"
  | "overflow"
  | "nonsense"
  | "unreachable"
  | "lost";

/** A command that ended without an exit code. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly failure: CommandFailure;
  /** The host answers, but does not let csimux in. */
  readonly isLoginRefused: boolean;
  constructor(
    where: string,
    program: string,
    failure: CommandFailure,
    reason: string,
    options: { cause?: unknown; isLoginRefused?: boolean } = {},
  ) {
    super(`${program}: ${reason} (${where})`, options);
    this.failure = failure;
    this.isLoginRefused = options.isLoginRefused === true;
  }
}

/** Throws every other error than that of a program that does not exist. */
export function ignoreMissing(error: unknown): undefined {
  if (!(error instanceof CommandError && error.failure === "missing")) throw error;
}

/** The exit code of a shell, env(1), nsenter(1) or setpriv(1) for a program that does not exist (POSIX.1-2017, Shell 2.8.2). */
export const notFoundExit = 127;

/** The status code for each failure: final only for a missing or forbidden program, after which nothing has happened. */
export const commandCodes: Readonly<Record<CommandFailure, Code>> = {
  missing: "failed-precondition",
  denied: "failed-precondition",
  timeout: "deadline-exceeded",
  cancelled: "deadline-exceeded",
  killed: "unavailable",
  spawn: "unavailable",
  overflow: "unavailable",
  nonsense: "unavailable",
  unreachable: "unavailable",
  lost: "unavailable",
};

const advice: Readonly<Partial<Record<CommandFailure, string>>> = {
  missing: "install the program where csimux runs",
  denied: "make the program executable for csimux",
  overflow: "this is a limit of csimux: report it",
  nonsense: "check what lies between csimux and the program (sudo, wrapper, login shell), then retry",
};

/**
 * Converts the failure of a command without an exit code to a CsiError that names the tool and what to do.
 * `task` names the work and its object ("mounting /a/b"). Returns any error other than a CommandError unchanged.
 */
export function commandFailure(error: unknown, task: string): unknown {
  if (!(error instanceof CommandError)) return error;
  const { failure, message } = error;
  return new CsiError(commandCodes[failure], `${task}: ${message}; ${advice[failure] ?? "retrying"}`, { cause: error });
}

/** Runs a program; `task` names the work for messages. Throws as commandFailure if there is no exit code. */
export async function run(runner: CommandRunner, command: Command, task: string, signal: AbortSignal): Promise<Output> {
  return await runner.run(command, signal).catch((error: unknown) => {
    throw commandFailure(error, task);
  });
}

/** As `run`, and throws "unavailable" for any exit code but 0: the outcome is unknown and the call must be retried. */
export async function runToSuccess(
  runner: CommandRunner,
  command: Command,
  task: string,
  signal: AbortSignal,
): Promise<Output> {
  const output = await run(runner, command, task, signal);
  if (output.exitCode !== 0) throw failed(output, task);
  return output;
}

/** The last line of a tool's error output, for messages, before its usage (mkfs.xfs) and without hints at dmesg (mount). */
export const complaint = ({ stderr, stdout }: Output): string => {
  const text = stderr.trim() || stdout.trim();
  const lines = (text.split(/^usage:/im)[0]?.trim() || text).split("\n").map(line => line.trim());
  return (lines.filter(line => line !== "" && !line.includes("dmesg")).at(-1) ?? "").slice(0, 300);
};

/** The error for a tool with an unexpected exit code. */
export const failed = (output: Output, task: string): CsiError =>
  new CsiError(
    "unavailable",
    `${task} failed with exit code ${output.exitCode}: ${complaint(output) || "no reason given"}`,
  );

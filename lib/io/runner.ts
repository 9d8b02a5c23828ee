/** A program and its arguments, never passed through a shell. */
export type Argv = readonly [string, ...string[]];

/** The default limit of a command's stdout, in bytes. */
export const defaultMaxBytes = 64 * 1024;

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
  /** Ends it; resolves when it has ended. */
  release(): Promise<void>;
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
   * Rejects with CommandError, "denied" if the program ended by itself. Absent if programs do not run on this machine.
   */
  readonly hold?: (argv: Argv, signal: AbortSignal) => Promise<BackgroundProcess>;
}

/**
 * Why a command has no exit code: program not found, not executable, time limit passed, cancelled, ended by a signal,
 * not started, too much output, no connection to its host, or the connection lost while it ran, so that its outcome is
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

/**
 * The same runner behind a prefix such as `sudo -n` or `chroot /host`. These may clear the environment, so the
 * command's variables follow them, through env(1), where the process list shows them: pass secrets through stdin.
 */
export const wrapped = (runner: CommandRunner, prefix: Argv): CommandRunner => ({
  where: `${runner.where} through ${prefix[0]}`,
  run({ argv, env = {}, ...rest }, signal) {
    const settings = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const between = settings.length > 0 ? ["env", ...settings] : [];
    return runner.run({ ...rest, argv: [...prefix, ...between, ...argv] }, signal);
  },
});

/** A program and its arguments. Nothing here ever passes through a shell. */
export type Argv = readonly [string, ...string[]];

/** How much of stdout a command may write when it does not say, in bytes. */
export const defaultMaxBytes = 64 * 1024;

/** What is to be executed. */
export interface Command {
  readonly argv: Argv;
  readonly stdin?: string;
  /** Added to the environment that the runner gives to every command. */
  readonly env?: Readonly<Record<string, string>>;
  /** Words that must not be printed. */
  readonly secret?: readonly string[];
  /** Wall-clock limit in milliseconds; 30,000 when absent. The process group is killed when it passes. */
  readonly timeoutMs?: number;
  /** The most bytes of stdout that are still a whole answer; 64 KiB when absent. More than that is the failure "overflow". */
  readonly maxBytes?: number;
}

/** What a finished command left, as UTF-8 text. stdout is data and always whole; stderr is cut to its first and last 64 KiB. */
export interface Output {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

/** A program that runs until it is released. */
export interface Held {
  /** Its process id on this machine. */
  readonly pid: number;
  /** Ends it; resolves when it is gone. */
  release(): Promise<void>;
}

/** Executes argv arrays somewhere. It does not judge exit codes; the file that wraps a tool does. */
export interface CommandRunner {
  /** "local", "ssh root@nas"; for logs and errors. */
  readonly where: string;
  /** Resolves whatever the exit code; rejects with CommandError when the command could not run or was killed. */
  run(command: Command, signal: AbortSignal): Promise<Output>;
  /**
   * Starts a program that gives back what it reads, such as cat(1) in a namespace, and resolves when it has given back a line.
   * It ends when it is released, and with this process, however that ends, because its input ends then.
   * Rejects with CommandError, "denied" when the program ended by itself. Absent where programs are not on this machine.
   */
  readonly hold?: (argv: Argv, signal: AbortSignal) => Promise<Held>;
}

/**
 * How a command came to no exit code: not found, not executable, out of time, given up, ended by a signal, not started, more output
 * than it may have, no connection to where it should run, or the connection lost while it ran, so that nobody knows what it did.
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

/** A command that did not run to an exit code of its own. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly failure: CommandFailure;
  constructor(where: string, program: string, failure: CommandFailure, reason: string, options?: { cause?: unknown }) {
    super(`${program}: ${reason} (${where})`, options);
    this.failure = failure;
  }
}

/**
 * The same runner behind a prefix such as `sudo -n` or `chroot /host`. These may clear the environment, so that of the command is
 * given after them, through env(1), where the process list shows it: secrets go through stdin.
 */
export const wrapped = (runner: CommandRunner, prefix: Argv): CommandRunner => ({
  where: `${runner.where} through ${prefix[0]}`,
  run({ argv, env = {}, ...rest }, signal) {
    const settings = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const between = settings.length > 0 ? ["env", ...settings] : [];
    return runner.run({ ...rest, argv: [...prefix, ...between, ...argv] }, signal);
  },
});

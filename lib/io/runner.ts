/** A program and its arguments. Nothing here ever passes through a shell. */
export type Argv = readonly [string, ...string[]];

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
}

/** What a finished command left. stdout and stderr are UTF-8 text, cut to their first and last 64 KiB. */
export interface Output {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

/** Executes argv arrays somewhere. It does not judge exit codes; the file that wraps a tool does. */
export interface CommandRunner {
  /** "local", "ssh root@nas"; for logs and errors. */
  readonly where: string;
  /** Resolves whatever the exit code; rejects with CommandError when the command could not run or was killed. */
  run(command: Command, signal: AbortSignal): Promise<Output>;
}

/** How a command came to no exit code: not found, not executable, out of time, given up, ended by a signal, or not started. */
export type CommandFailure = "missing" | "denied" | "timeout" | "cancelled" | "killed" | "spawn";

/** A command that did not run to an exit code of its own. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly failure: CommandFailure;
  constructor(where: string, program: string, failure: CommandFailure, reason: string, options?: { cause?: unknown }) {
    super(`${program}: ${reason} (${where})`, options);
    this.failure = failure;
  }
}

import type { Argv, Child, ChildStreams, CommandRunner, Output } from "./runner.ts";

/** The stdout of an earlier step of the same script, without trailing line breaks, as one word. */
export interface OutputOf {
  readonly outputOf: string;
}

/** One command of a script. Every word reaches the program unchanged, without shell expansion. */
export interface Step {
  /** Unique in its script; the key of its output. */
  readonly name: string;
  readonly argv: readonly [string, ...(string | OutputOf)[]];
  /** Carries secrets, too: it appears in no process list. Without it the program reads an empty input. */
  readonly stdin?: string;
  /** Secrets that must not be printed. */
  readonly secret?: readonly string[];
  /** Like Command.maxBytes. */
  readonly maxBytes?: number;
  /** Like Command.check. */
  readonly check?: () => (line: string) => void;
  /**
   * The step changes nothing. A script of such steps alone does not wait behind changes: a host that is slow with
   * changes would otherwise seem not to answer at all.
   */
  readonly reads?: true;
  /** "go-on": the script continues after a nonzero exit code of this step. By default it ends. */
  readonly onFailure?: "go-on";
  /** An earlier step; this step is skipped unless that one exited with code 0. */
  readonly onlyAfter?: string;
  /** An earlier step; this step is skipped if that one exited with code 0. */
  readonly unless?: string;
}

/** Commands that are sent to a host together and run there one after another. */
export interface Script {
  readonly steps: readonly [Step, ...Step[]];
  /**
   * Limit for the whole script in milliseconds; two minutes if absent. No step starts after it, even if the host was
   * frozen.
   */
  readonly timeoutMs?: number;
  /** May run for hours; uses a separate pool, so that short scripts do not wait for it. */
  readonly long?: true;
}

/** The outputs of the finished steps, by name. Skipped steps have none. */
export type Outputs = ReadonlyMap<string, Output>;

/** The default time limit of a script, in milliseconds. */
export const scriptTimeoutMs = 120_000;

/** A machine that runs storage programs: this one, or one behind ssh. */
export interface StorageHost {
  readonly runner: CommandRunner;
  /**
   * Runs a script and resolves once it has provably ended: after all steps, or after the first that failed. Rejects
   * with CommandError otherwise; after "lost", "timeout", "cancelled", "overflow" and "nonsense" a step may have run or may still
   * be running.
   */
  script(script: Script, signal: AbortSignal): Promise<Outputs>;
  /** Runs `work` while no other connection of this process uses `tool` on this host. */
  exclusive<T>(tool: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  /** A value that exists once for this host and all connections of this process that use it; created on first use. */
  shared<T>(what: string, make: () => T): T;
  /**
   * Starts a program for a stream of bytes, which never pass this process: on this machine as it is; on another one in a login of its
   * own, apart from scripts. Resolves when the program is about to run. Has no time limit; aborting `signal` ends the program, as
   * Child.end does. Rejects with CommandError. Absent where programs cannot be joined by descriptors.
   */
  readonly child?: (argv: Argv, streams: ChildStreams, signal: AbortSignal) => Promise<Child>;
}

/** Quotes a word for a POSIX shell: in single quotes, unless it consists of harmless characters only. */
export const quoted = (word: string): string =>
  /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

/** A shell that exits with 0 only if both ends of a pipe do, which the pipe alone does not (POSIX.1-2017, Shell 2.9.2). */
export function piped(from: Argv, to: Argv): Argv {
  const [left, right] = [from.map(quoted).join(" "), to.map(quoted).join(" ")];
  const text = `sent=$({ { ${left}; echo $? >&3; } | ${right} >&2; } 3>&1); got=$?; [ "$got" = 0 ] && [ "$sent" = 0 ]`;
  return ["sh", "-c", text];
}

/** Creates one value per name, on first use; implements StorageHost.shared. */
export function memoizeByKey(): <T>(what: string, make: () => T) => T {
  const made = new Map<string, unknown>();
  return <T>(what: string, make: () => T): T => {
    if (!made.has(what)) made.set(what, make());
    return made.get(what) as T;
  };
}

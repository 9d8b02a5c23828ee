import type { CommandRunner, Output } from "./runner.ts";

/** What an earlier step of the same script wrote to stdout, without line breaks at its end, as one word. */
export interface OutputOf {
  readonly outputOf: string;
}

/** One command of a script. Every word reaches the program as it is, through no shell. */
export interface Step {
  /** Unique in its script; the key of its output. */
  readonly name: string;
  readonly argv: readonly [string, ...(string | OutputOf)[]];
  /** Also the way for secrets: it is in no process list. Without it the program reads an empty input. */
  readonly stdin?: string;
  /** Words that must not be printed. */
  readonly secret?: readonly string[];
  /** As Command.maxBytes. */
  readonly maxBytes?: number;
  /**
   * It changes nothing. A script of such steps alone does not wait behind changes: a host that is slow with them would seem not to
   * answer at all.
   */
  readonly reads?: true;
  /** After an exit code other than 0 the rest of the script is left out, unless this says otherwise. */
  readonly onFailure?: "go-on";
  /** An earlier step without whose exit code 0 this one is left out. */
  readonly onlyAfter?: string;
  /** An earlier step after whose exit code 0 this one is left out. */
  readonly unless?: string;
}

/** Commands that travel to a host together and run there one after another. */
export interface Script {
  readonly steps: readonly [Step, ...Step[]];
  /** Limit for the whole script in milliseconds; two minutes when absent. No step begins after it, not even when the host was frozen. */
  readonly timeoutMs?: number;
  /** Takes hours perhaps: it gets a place of its own, so that short scripts do not wait for it. */
  readonly long?: true;
}

/** The outputs of the steps that ran to their end, by name. A step that is not in it was left out. */
export type Outputs = ReadonlyMap<string, Output>;

/** How long a script may take when it does not say, in milliseconds. */
export const scriptTimeoutMs = 120_000;

/** A machine whose programs are used: this one, or one behind ssh. */
export interface StorageHost {
  readonly runner: CommandRunner;
  /**
   * Runs a script and resolves when it is proved to be over: with all steps, or up to the first that ended badly. Rejects with
   * CommandError otherwise; after "lost", "timeout", "cancelled" and "overflow" a step may have been done, and may be going on.
   */
  script(script: Script, signal: AbortSignal): Promise<Outputs>;
  /** Runs `work` while nothing else on this host uses `tool` through csimux, over all connections of this process. */
  exclusive<T>(tool: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  /** What exists once for this host, for all connections of this process that use it: made when it is first asked for. */
  shared<T>(what: string, make: () => T): T;
}

/** The word for a POSIX shell: in single quotes, unless it is made of harmless characters only. */
export const quoted = (word: string): string =>
  /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

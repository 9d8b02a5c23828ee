/** The flags of all subcommands, under commander's names. */
export interface CopiesFlags {
  readonly endpoint?: string;
  readonly output: string;
  readonly wait?: string;
}

/** A subcommand of `csimux copies`. */
export type CopiesVerb = "pass" | "finish" | "cancel" | "freeze" | "thaw" | "plan" | "begin" | "list";

/** The exit code of `csimux copies` for work that continues after `--wait`. */
export const stillRunning = 3;

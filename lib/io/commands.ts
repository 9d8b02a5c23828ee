import { type Code, CsiError } from "../core/errors.ts";
import { CommandError, type CommandFailure } from "./runner.ts";

const answers: Readonly<Record<CommandFailure, { readonly code: Code; readonly advice: string }>> = {
  missing: { code: "failed-precondition", advice: "install the program where csimux runs" },
  denied: { code: "failed-precondition", advice: "make the program executable for csimux" },
  spawn: { code: "unavailable", advice: "retrying" },
  timeout: { code: "deadline-exceeded", advice: "retrying" },
  cancelled: { code: "unavailable", advice: "retrying" },
  killed: { code: "unavailable", advice: "retrying" },
  overflow: { code: "unavailable", advice: "this is a limit of csimux: report it" },
  unreachable: { code: "unavailable", advice: "retrying" },
  lost: { code: "unavailable", advice: "retrying" },
};

/**
 * Converts the failure of a command without an exit code to a CsiError that names the tool and what to do.
 * `task` names the work and its object ("mounting /a/b"). Returns any error other than a CommandError unchanged.
 * Only a missing or forbidden program is final; after any other failure the outcome is unknown and the caller retries.
 */
export function commandFailure(error: unknown, task: string): unknown {
  if (!(error instanceof CommandError)) return error;
  const { code, advice } = answers[error.failure];
  return new CsiError(code, `${task}: ${error.message}; ${advice}`, { cause: error });
}

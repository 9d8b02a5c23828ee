import { type Code, CsiError } from "../core/errors.ts";
import { CommandError, type CommandFailure } from "./runner.ts";

const answers: Readonly<Record<CommandFailure, { readonly code: Code; readonly advice: string }>> = {
  missing: { code: "failed-precondition", advice: "install the program where csimux runs" },
  denied: { code: "failed-precondition", advice: "make the program executable for csimux" },
  spawn: { code: "unavailable", advice: "it will be tried again" },
  timeout: { code: "deadline-exceeded", advice: "it will be tried again" },
  cancelled: { code: "unavailable", advice: "repeat the call" },
  killed: { code: "unavailable", advice: "it will be tried again" },
  overflow: { code: "unavailable", advice: "this is a limit of csimux: report it" },
  unreachable: { code: "unavailable", advice: "it will be tried again" },
  lost: { code: "unavailable", advice: "it will be tried again" },
};

/**
 * The answer to a caller for a command that did not run to its end: the tool's name and what to do about it.
 * `task` names the work and its object ("mounting /a/b"). Anything but a CommandError passes through unchanged.
 * Only a missing or forbidden program is final; after every other failure the outcome is unknown and the call is repeated.
 */
export function commandFailure(error: unknown, task: string): unknown {
  if (!(error instanceof CommandError)) return error;
  const { code, advice } = answers[error.failure];
  return new CsiError(code, `${task}: ${error.message}; ${advice}`, { cause: error });
}

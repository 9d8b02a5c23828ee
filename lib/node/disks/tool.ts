import { CsiError } from "../../core/errors.ts";
import { commandFailure } from "../../io/commands.ts";
import type { Command, CommandRunner, Output } from "../../io/runner.ts";

/** Runs a program; `task` names the work and its object. Throws CsiError where it came to no exit code (commandFailure). */
export async function run(runner: CommandRunner, command: Command, task: string, signal: AbortSignal): Promise<Output> {
  return await runner.run(command, signal).catch((error: unknown) => {
    throw commandFailure(error, task);
  });
}

/** The last line in which a tool complains, for a message. */
export const complaint = ({ stderr, stdout }: Output): string =>
  (stderr.trim() || stdout.trim()).split("\n").at(-1)?.trim().slice(0, 300) ?? "";

/** A tool that ended with an exit code that is not in `good`. The outcome may be anything, so the call is repeated. */
export const failed = (output: Output, task: string): CsiError =>
  new CsiError(
    "unavailable",
    `${task} failed with exit code ${output.exitCode}: ${complaint(output) || "no reason given"}`,
  );

import { CsiError } from "../../core/errors.ts";
import { commandFailure } from "../../io/commands.ts";
import type { Command, CommandRunner, Output } from "../../io/runner.ts";

/**
 * Runs a program; `task` describes the work for messages. Throws CsiError if there is no exit code (commandFailure).
 */
export async function run(runner: CommandRunner, command: Command, task: string, signal: AbortSignal): Promise<Output> {
  return await runner.run(command, signal).catch((error: unknown) => {
    throw commandFailure(error, task);
  });
}

/** The last line of a tool's error output, for messages. */
export const complaint = ({ stderr, stdout }: Output): string =>
  (stderr.trim() || stdout.trim()).split("\n").at(-1)?.trim().slice(0, 300) ?? "";

/** The error for a tool that failed. "unavailable", because the outcome is unknown and the call must be retried. */
export const failed = (output: Output, task: string): CsiError =>
  new CsiError(
    "unavailable",
    `${task} failed with exit code ${output.exitCode}: ${complaint(output) || "no reason given"}`,
  );

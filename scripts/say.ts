import { messageOf } from "../lib/core/errors.ts";
import type { Spawned } from "./spawned.ts";

/** Prints progress to stderr, with the time of day; stdout is for results. */
export const say = (text: string): void => console.error(`${new Date().toTimeString().slice(0, 8)} ${text}`);

/** Ends a script that has failed: prints why, without a stack, and sets its exit code. */
export function fail(error: unknown): void {
  console.error(messageOf(error));
  process.exitCode = 1;
}

/** Prints what a program has printed, and ends this one with its exit code. */
export function passOn({ code, stdout, stderr }: Spawned): void {
  process.stdout.write(stdout);
  process.stderr.write(stderr);
  process.exitCode = code;
}

/** Ends what a command has started if that is interrupted, and exits. */
export function whenInterrupted(end: () => Promise<void>): void {
  const exit = () => void end().finally(() => process.exit(1));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, exit);
}

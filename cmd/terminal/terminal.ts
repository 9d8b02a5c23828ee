import { readFile } from "node:fs/promises";
import { errnoOf } from "../../lib/core/errors.ts";
import type { Host } from "../host.ts";

/** Ends a command with this exit code once all output has been written. */
export function exit(code: number): void {
  process.exitCode = code;
}

/** Invalid usage: the message names the flag and its valid values; exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Runs a command; for invalid usage, prints the message and returns 2. */
export async function unlessMisused(host: Pick<Host, "err">, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return 2;
  }
}

/** The text of a file that a flag names; "-": of the standard input. Throws UsageError. */
export async function textOf(path: string, host: Host): Promise<string> {
  if (path === "-") return host.stdin();
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new UsageError(`${path} cannot be read (${errnoOf(error) ?? "unknown reason"})`);
  }
}

/** The milliseconds of a flag with seconds. Throws UsageError unless they are above 0 and at most a day. */
export function milliseconds(flag: string, text: string): number {
  const seconds = Number(text);
  if (seconds > 0 && seconds <= 86_400) return seconds * 1000;
  throw new UsageError(`${flag} must be a number of seconds above 0, not "${text}"`);
}

/** Collects the values of a flag that may be repeated. */
export const collect = (value: string, before: readonly string[] | undefined): readonly string[] => [
  ...(before ?? []),
  value,
];

export { visible } from "../../lib/core/visible.ts";

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

/** Collects the values of a flag that may be repeated. */
export const collect = (value: string, before: readonly string[] | undefined): readonly string[] => [
  ...(before ?? []),
  value,
];

/** Makes text from outside safe for a terminal: control characters (C0, DEL and C1) become \u escapes. */
export const visible = (text: string): string =>
  [...text].map(each => (isControl(each) ? `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}` : each)).join("");

const isControl = (each: string): boolean => each < " " || (each >= "\x7f" && each <= "\x9f");

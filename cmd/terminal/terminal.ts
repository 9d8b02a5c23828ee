/** Ends a command with this exit code once all output has been written. */
export function exit(code: number): void {
  process.exitCode = code;
}

/** Invalid usage: the message names the flag and its valid values; exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Makes text from outside safe for a terminal: control characters (C0, DEL and C1) become \u escapes. */
export const visible = (text: string): string =>
  [...text].map(each => (isControl(each) ? `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}` : each)).join("");

const isControl = (each: string): boolean => each < " " || (each >= "\x7f" && each <= "\x9f");

/** Invalid usage: the message names the flag and its valid values; exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

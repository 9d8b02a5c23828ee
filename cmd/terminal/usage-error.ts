/** Bad usage: the text says which flag and what it takes; exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

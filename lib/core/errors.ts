/**
 * The failure vocabulary of csimux: the status codes of the CSI specification, in words.
 * Which situation gets which code: CSI v1.13 "Error Scheme" and the tables of each RPC; errors.md has what callers do with each,
 * and what csimux answers when.
 */
export type Code =
  | "invalid-argument"
  | "not-found"
  | "already-exists"
  | "out-of-range"
  | "resource-exhausted"
  | "failed-precondition"
  | "aborted"
  | "unavailable"
  | "deadline-exceeded"
  | "unimplemented"
  | "unauthenticated"
  | "permission-denied"
  | "internal";

/**
 * The one error that drivers, attachers and the router throw on purpose.
 * The message is for people: it names the object, says what happened and what to do, and holds no secret.
 * `cause` is for the log and never leaves the process.
 */
export class CsiError extends Error {
  override readonly name = "CsiError";
  readonly code: Code;
  constructor(code: Code, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

const pending: ReadonlySet<Code> = new Set<Code>(["aborted", "unavailable", "deadline-exceeded"]);

/** True when the caller may conclude that nothing is in progress any more (CSI "Timeouts"; external-provisioner's table). */
export const isFinal = (error: unknown): boolean => !(error instanceof CsiError && pending.has(error.code));

/**
 * The code of several refusals of one volume taken together: final only when all are for good, otherwise "resource-exhausted",
 * on which the scheduler may try another node.
 */
export const jointCode = (refusals: readonly CsiError[]): Code =>
  refusals.every(({ code }) => code === "invalid-argument") ? "invalid-argument" : "resource-exhausted";

/** An unexpected failure for the log: the stack where there is one. Never for a client, whom the CsiError alone tells something. */
export const detailOf = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? `${error.name}: ${error.message}`) : String(error);

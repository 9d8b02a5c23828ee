/**
 * The error codes of csimux: the status codes of the CSI specification, in words. The code for each situation: CSI
 * v1.13 "Error Scheme" and the tables of each RPC. errors.md lists how callers react to each code and which code csimux
 * answers in each situation.
 */
export const codes = [
  "invalid-argument",
  "not-found",
  "already-exists",
  "out-of-range",
  "resource-exhausted",
  "failed-precondition",
  "aborted",
  "unavailable",
  "deadline-exceeded",
  "unimplemented",
  "unauthenticated",
  "permission-denied",
  "internal",
] as const;

/** One error code. */
export type Code = (typeof codes)[number];

/** What a failure says about a storage beyond its code: it answers, but refuses the login, or something in it is missing or suspended. */
export type Refused = "login-refused" | "unusable";

/**
 * The only error that drivers, attachers and the router throw deliberately.
 * The message is for people: it names the object, says what happened and what to do, and contains no secret.
 * `cause` is for the log and never leaves the process.
 */
export class CsiError extends Error {
  override readonly name = "CsiError";
  readonly code: Code;
  readonly refused: Refused | undefined;
  constructor(code: Code, message: string, options?: { cause?: unknown; refused?: Refused | undefined }) {
    super(message, options);
    this.code = code;
    this.refused = options?.refused;
  }
}

const pending: ReadonlySet<Code> = new Set<Code>(["aborted", "unavailable", "deadline-exceeded"]);

/**
 * Whether the caller may conclude that nothing is in progress any more (CSI "Timeouts"; external-provisioner's table).
 */
export const isFinal = (error: unknown): boolean => !(error instanceof CsiError && pending.has(error.code));

/** Whether an error has this code. */
export const hasCode = (error: unknown, code: Code): error is CsiError =>
  error instanceof CsiError && error.code === code;

/** Throws every other error than "not-found". */
export function ignoreNotFound(error: unknown): undefined {
  if (!hasCode(error, "not-found")) throw error;
}

/**
 * The joint code of several refusals of one volume: final only if all are final, otherwise "resource-exhausted",
 * which lets the scheduler try another node.
 */
export const jointCode = (refusals: readonly CsiError[]): Code =>
  refusals.every(({ code }) => code === "invalid-argument" || code === "out-of-range")
    ? (refusals[0]?.code ?? "invalid-argument")
    : "resource-exhausted";

/** The message of anything that was thrown, for a sentence about it. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/**
 * An unexpected failure for the log, with its stack if there is one. Never for a client, which gets only the CsiError.
 */
export const detailOf = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? `${error.name}: ${error.message}`) : String(error);

/** The name of an operating system error ("ENOENT"), or undefined for any other error. */
export const errnoOf = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string" && /^E[A-Z0-9]+$/.test(error.code)
    ? error.code
    : undefined;

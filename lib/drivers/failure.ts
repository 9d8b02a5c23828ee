import type { Call } from "../core/call.ts";
import { type Code, CsiError, isFinal, type Refused } from "../core/errors.ts";
import { CommandError, commandCodes } from "../io/runner.ts";

/** The meaning of a storage system's message: a code, and a text that says what to do. */
export interface ErrorMapping {
  readonly code: Code;
  readonly text: string;
  /** Like CsiError.refused. */
  readonly refused?: Refused;
}

/** A connection whose failures are reported, and who understands the messages of its storage system. */
export interface FailureContext {
  readonly connection: string;
  /** Undefined for a failure that it does not know. */
  explain(error: unknown): ErrorMapping | undefined;
  /** A folder of csimux's machine that answers must not show, because everyone who sees the events of a claim can read them. */
  hidden?(): string | undefined;
}

/**
 * The error to report for a failure of `doing` (for example `create volume "a"`); a CsiError stays unchanged. An unknown failure is
 * "internal", without the original text, which may contain anything.
 */
export function failure(error: unknown, subject: FailureContext, doing: string): CsiError {
  if (error instanceof CsiError) return error;
  const head = `connection "${subject.connection}": cannot ${doing}`;
  const known = subject.explain(error);
  if (known) return new CsiError(known.code, `${head}: ${known.text}`, { cause: error, refused: known.refused });
  if (error instanceof CommandError) {
    const refused = error.isLoginRefused ? "login-refused" : undefined;
    return new CsiError(commandCodes[error.failure], `${head}: ${error.message}`, { cause: error, refused });
  }
  return new CsiError("internal", `${head}: unexpected failure; see the log`, { cause: error });
}

/** The refusal to delete what nodes named `by` still use (CSI DeleteVolume, "Volume in use"); nothing was changed. */
export const inUse = (what: string, by: readonly string[]): CsiError => {
  const nodes = by.slice(0, 5).join(", ").slice(0, 400) || "a node";
  return new CsiError(
    "failed-precondition",
    `${what} is in use: ${nodes} is still connected; end the pods that use the volume, and it will be deleted then`,
  );
};

/** The failure of a call that may have left something: never final, because the caller would conclude that nothing is left. */
export function unfinished(error: unknown, subject: FailureContext, doing: string): CsiError {
  const failed = failure(error, subject, doing);
  if (!isFinal(failed)) return failed;
  return new CsiError("unavailable", `${failed.message}; retry the call: a part of it may exist`, {
    cause: error,
    refused: failed.refused ?? "unusable",
  });
}

/** Looks for what an earlier call may have made. That it cannot be looked for is not final; what `look` itself refuses is. */
export async function lookedFor<T>(look: Promise<T>, subject: FailureContext, doing: string): Promise<T> {
  return look.catch((error: unknown) => {
    throw error instanceof CsiError ? error : unfinished(error, subject, doing);
  });
}

/**
 * The error to throw after a failed creation. A failure that is not final stays, because a retry continues from what exists; a final one
 * stays final only if `undo` proves that nothing is left (CSI "Timeouts": the rest would never be deleted).
 */
export async function afterFailure(
  error: unknown,
  undo: () => Promise<boolean>,
  subject: FailureContext,
  doing: string,
  call: Call,
): Promise<unknown> {
  const failed = failure(error, subject, doing);
  if (!isFinal(failed)) return error;
  const undone = await undo().catch((cause: unknown) => {
    call.log.warn("could not remove what a failed call left; the next call of this name will", { doing, cause });
    return false;
  });
  if (!undone) return unfinished(error, subject, doing);
  return failed.code === "internal" ? failed : error;
}

/** Throws the signal's reason, or "deadline-exceeded", if the request has ended. Called between steps from which a retry can continue. */
export function throwIfCancelled({ connection }: Pick<FailureContext, "connection">, call: Call): void {
  if (!call.signal.aborted) return;
  if (call.signal.reason instanceof CsiError) throw call.signal.reason;
  throw new CsiError(
    "deadline-exceeded",
    `connection "${connection}": the request was cancelled before the operation was complete`,
  );
}

/**
 * Runs one operation; its failures get a code and a message that names connection and object. One that csimux does not know says nothing
 * about what exists, so it is not final; where afterFailure has proved that nothing is left, it is a CsiError already.
 */
export async function guarded<T>(
  subject: FailureContext,
  doing: string,
  name: string,
  call: Call,
  work: () => Promise<T>,
): Promise<T> {
  try {
    throwIfCancelled(subject, call);
    return await work();
  } catch (error) {
    const whole = name === "" ? doing : `${doing} "${name.slice(0, 160)}"`;
    const failed = failure(error, subject, whole);
    const isUnknown = failed !== error && failed.code === "internal";
    throw shown(isUnknown ? unfinished(error, subject, whole) : failed, subject);
  }
}

/** The end of a path in a text; a longer name with the same beginning is another path. */
const pathEnd = "(?![A-Za-z0-9_.-])";

/** The failure for a client, without the hidden folder; the log has the original as its cause. */
function shown(error: CsiError, subject: FailureContext): CsiError {
  const path = subject.hidden?.();
  if (!path || !error.message.includes(path)) return error;
  const pattern = new RegExp(path.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&") + pathEnd, "g");
  const original = new Error(error.message, { cause: error.cause });
  return new CsiError(error.code, error.message.replace(pattern, "<base folder>"), {
    cause: original,
    refused: error.refused,
  });
}

import type { Call } from "../core/call.ts";
import { type Code, CsiError, isFinal, type Refused } from "../core/errors.ts";
import { CommandError, commandCodes } from "../io/runner.ts";

/** What the words of a storage system mean to a caller: a code, and a text that says what to do. */
export interface ErrorMapping {
  readonly code: Code;
  readonly text: string;
  /** As CsiError.refused. */
  readonly refused?: Refused;
}

/** Whose failures are named: a connection, and the one place where the words of its storage are understood. */
export interface FailureContext {
  readonly connection: string;
  /** Undefined for a failure that this storage does not know. */
  explain(error: unknown): ErrorMapping | undefined;
  /** A folder of csimux's machine that answers do not show, because everybody who sees the events of a claim reads them. */
  hidden?(): string | undefined;
}

/**
 * The error to report for anything that went wrong while `doing` (for example `create volume "a"`); a CsiError stays itself.
 * Everything that is not recognised is "internal", without the original text, which may hold anything.
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

/**
 * The refusal to delete what nodes still use (CSI DeleteVolume, "Volume in use"); nothing of it has been changed. `by`: the nodes
 * as the storage names them.
 */
export const inUse = (what: string, by: readonly string[]): CsiError => {
  const nodes = by.slice(0, 5).join(", ").slice(0, 400) || "a node";
  return new CsiError(
    "failed-precondition",
    `${what} is in use: ${nodes} is still connected; end the pods that use the volume, and it will be deleted then`,
  );
};

/** The failure of a call of which something is or may be there: never a final one, from which the caller would conclude the opposite. */
export function unfinished(error: unknown, subject: FailureContext, doing: string): CsiError {
  const failed = failure(error, subject, doing);
  if (!isFinal(failed)) return failed;
  return new CsiError("unavailable", `${failed.message}; then repeat the call: something of it may be there`, {
    cause: error,
  });
}

/**
 * The error to throw after a creation failed. A failure that is not final stays, for the repeat goes on from what is there;
 * a final one stays final only when `undo` proves that nothing is left (CSI "Timeouts": nobody would ever delete the rest).
 */
export async function afterFailure(
  error: unknown,
  undo: () => Promise<boolean>,
  subject: FailureContext,
  doing: string,
  call: Call,
): Promise<unknown> {
  if (!isFinal(failure(error, subject, doing))) return error;
  const undone = await undo().catch((cause: unknown) => {
    call.log.warn("could not remove what a failed call left; the next call of this name will", { doing, cause });
    return false;
  });
  return undone ? error : unfinished(error, subject, doing);
}

/** Throws the signal's own reason, or "deadline-exceeded", when the request is over. Called between steps that a repeat can continue from. */
export function throwIfCancelled({ connection }: Pick<FailureContext, "connection">, call: Call): void {
  if (!call.signal.aborted) return;
  if (call.signal.reason instanceof CsiError) throw call.signal.reason;
  throw new CsiError("deadline-exceeded", `connection "${connection}": the request ended before the work; repeat it`);
}

/** Runs one operation; every failure of it gets its code and a message that names connection and object. */
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
    throw shown(failure(error, subject, name === "" ? doing : `${doing} "${name.slice(0, 160)}"`), subject);
  }
}

/** What comes after a path in a text; a longer name that begins alike is another path. */
const pathEnd = "(?![A-Za-z0-9_.-])";

/** The failure as a client may read it, with words in place of the folder that is hidden; the log has the original as its cause. */
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

import { Code, ConnectError } from "@connectrpc/connect";
import { CsiError, type Code as Word } from "../core/errors.ts";

/** The gRPC status of each CsiError code; nothing else maps them. */
const codes: Readonly<Record<Word, Code>> = {
  "invalid-argument": Code.InvalidArgument,
  "not-found": Code.NotFound,
  "already-exists": Code.AlreadyExists,
  "out-of-range": Code.OutOfRange,
  "resource-exhausted": Code.ResourceExhausted,
  "failed-precondition": Code.FailedPrecondition,
  aborted: Code.Aborted,
  unavailable: Code.Unavailable,
  "deadline-exceeded": Code.DeadlineExceeded,
  unimplemented: Code.Unimplemented,
  unauthenticated: Code.Unauthenticated,
  "permission-denied": Code.PermissionDenied,
  internal: Code.Internal,
};

/**
 * The error that a client may see. A CsiError keeps its code and message; a ConnectError stays unchanged; any other
 * error becomes INTERNAL with a fixed text, because its own may contain a path, a secret or a stack. The original is
 * the `cause`.
 */
export function toConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof CsiError) return new ConnectError(error.message, codes[error.code], undefined, undefined, error);
  return new ConnectError("internal error", Code.Internal, undefined, undefined, error);
}

/**
 * The longest message in bytes on the wire, percent-encoded in a header. HTTP/2 peers commonly refuse header blocks
 * above 8 to 64 KiB, and the call would then fail with another code than ours.
 */
const maxEncodedBytes = 4096;

/** The size of one character once percent-encoded. */
const encodedBytes = (character: string): number => encodeURI(character).length;

/**
 * A message made fit for a header: lone surrogates replaced (encodeURI throws on them) and cut to 4 KiB once encoded.
 */
export function wireText(message: string): string {
  const text = message.toWellFormed();
  if (text.length * 9 <= maxEncodedBytes || encodedBytes(text) <= maxEncodedBytes) return text;
  const mark = "...";
  let left = maxEncodedBytes - mark.length;
  let end = 0;
  for (const character of text) {
    left -= encodedBytes(character);
    if (left < 0) break;
    end += character.length;
  }
  return text.slice(0, end) + mark;
}

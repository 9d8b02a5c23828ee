import { errnoOf } from "../../core/errno.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import { CommandError, type CommandFailure } from "../../io/runner.ts";

interface Meaning {
  readonly code: Code;
  readonly text: string;
}

const full: Meaning = { code: "resource-exhausted", text: "no space is left; free some or add some" };
const quota: Meaning = { code: "resource-exhausted", text: "the disk quota is used up; raise it or free some" };
const denied: Meaning = { code: "failed-precondition", text: "permission denied; let csimux write to the base folder" };
const readOnly: Meaning = { code: "failed-precondition", text: "the file system is read-only; mount it writable" };
const gone: Meaning = {
  code: "unavailable",
  text: "a folder disappeared during the work; check that the base folder is mounted",
};
const mounted: Meaning = { code: "failed-precondition", text: "it is in use as a mount point; unmount it" };
const tooLong: Meaning = {
  code: "failed-precondition",
  text: "a path in it is longer than the system can take below the base folder; shorten it",
};
const foreign: Meaning = {
  code: "failed-precondition",
  text: "it holds another file system or a btrfs subvolume; unmount or delete that",
};
const appeared: Meaning = { code: "aborted", text: "something appeared in its place meanwhile; repeat the call" };
const broken: Meaning = {
  code: "unavailable",
  text: "the file system does not answer properly; check disk, server and mount",
};

const meanings: Readonly<Record<string, Meaning>> = {
  ENOSPC: full,
  EDQUOT: quota,
  EMLINK: { code: "resource-exhausted", text: "the folder holds as many entries as the file system allows" },
  EMFILE: { code: "resource-exhausted", text: "too many open files; raise the limit of the process" },
  EACCES: denied,
  EPERM: denied,
  EROFS: readOnly,
  ENOENT: gone,
  EEXIST: appeared,
  ENOTEMPTY: appeared,
  ENOTDIR: {
    code: "failed-precondition",
    text: "something that should be a folder is not one; look at the base folder",
  },
  EBUSY: mounted,
  ENAMETOOLONG: tooLong,
  EXDEV: {
    code: "failed-precondition",
    text: "v, s and .csimux below the base folder must be on one file system and in one quota project",
  },
  ESTALE: broken,
  EIO: broken,
  ENOTCONN: broken,
  EHOSTDOWN: broken,
  ETIMEDOUT: broken,
};

/** The system's own words (strerror(3), locale C) in the last line of a tool, and what they mean here. */
const words: readonly (readonly [string, Meaning])[] = [
  ["No space left on device", full],
  ["Disk quota exceeded", quota],
  ["Read-only file system", readOnly],
  ["Permission denied", denied],
  ["Operation not permitted", denied],
  ["Device or resource busy", mounted],
  ["since it's on a different device", foreign],
  ["File name too long", tooLong],
  ["Stale file handle", broken],
  ["Input/output error", broken],
  ["Transport endpoint is not connected", broken],
];

const commandCodes: Readonly<Record<CommandFailure, Code>> = {
  missing: "failed-precondition",
  denied: "failed-precondition",
  timeout: "deadline-exceeded",
  cancelled: "deadline-exceeded",
  killed: "unavailable",
  spawn: "unavailable",
  overflow: "unavailable",
  unreachable: "unavailable",
  lost: "unavailable",
};

/**
 * The error to report for anything that went wrong while `doing` (for example `create volume "a"`); a CsiError stays itself.
 * Everything that is not recognised is "internal", without the original text, which may hold anything.
 */
export function failure(error: unknown, connection: string, doing: string): CsiError {
  if (error instanceof CsiError) return error;
  const head = `connection "${connection}": cannot ${doing}`;
  if (error instanceof CommandError) {
    return new CsiError(commandCodes[error.failure], `${head}: ${error.message}`, { cause: error });
  }
  const errno = errnoOf(error);
  const known = errno === undefined ? undefined : meanings[errno];
  if (known) return new CsiError(known.code, `${head}: ${known.text} (${errno})`, { cause: error });
  return new CsiError("internal", `${head}: ${errno ?? "unexpected failure"}; see the log`, { cause: error });
}

/** The error for a tool that ended with a bad exit code: its meaning from its last words. */
export function toolFailure(
  connection: string,
  doing: string,
  tool: string,
  exitCode: number,
  stderr: string,
): CsiError {
  const lines = stderr.split("\n").filter(line => line.trim() !== "");
  const known = words.find(([phrase]) => stderr.includes(phrase))?.[1];
  const last = (lines.at(-1) ?? "no message").slice(0, 300);
  const text = `connection "${connection}": cannot ${doing}: ${tool} ended with ${exitCode}: ${last}`;
  return new CsiError(known?.code ?? "internal", known ? `${text}: ${known.text}` : text);
}

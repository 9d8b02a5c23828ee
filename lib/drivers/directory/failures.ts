import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import type { Meaning } from "../failure.ts";

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

/** What an errno error of the base folder's file system means. */
export function explain(error: unknown): Meaning | undefined {
  const errno = errnoOf(error);
  if (errno === undefined) return undefined;
  const known = meanings[errno];
  if (known) return { code: known.code, text: `${known.text} (${errno})` };
  return { code: "internal", text: `${errno}; see the log` };
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

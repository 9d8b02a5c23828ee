import { CsiError, errnoOf } from "../core/errors.ts";
import type { Output } from "../io/runner.ts";
import type { ErrorMapping } from "./failure.ts";

const full: ErrorMapping = { code: "resource-exhausted", text: "no space is left; free some or add some" };
const quota: ErrorMapping = { code: "resource-exhausted", text: "the disk quota is used up; raise it or free some" };
const denied: ErrorMapping = {
  code: "failed-precondition",
  text: "permission denied; let csimux write to the base folder",
};
const readOnly: ErrorMapping = { code: "failed-precondition", text: "the file system is read-only; mount it writable" };
const gone: ErrorMapping = {
  code: "unavailable",
  text: "a folder disappeared meanwhile; check that the base folder is mounted",
};
const mounted: ErrorMapping = { code: "failed-precondition", text: "it is in use as a mount point; unmount it" };
const tooLong: ErrorMapping = {
  code: "failed-precondition",
  text: "a path in it is too long below the base folder; shorten it",
};
const foreign: ErrorMapping = {
  code: "failed-precondition",
  text: "it holds another file system or a btrfs subvolume; unmount or delete that",
};
const appeared: ErrorMapping = { code: "aborted", text: "something of this name appeared meanwhile; retrying" };
const broken: ErrorMapping = {
  code: "unavailable",
  text: "the file system does not answer properly; check disk, server and mount",
};

const strange: ErrorMapping = { code: "internal", text: "a tool failed for an unknown reason; see the log" };

const meanings: Readonly<Record<string, ErrorMapping>> = {
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
  ENOTDIR: { code: "failed-precondition", text: "something that should be a folder is not one; check the base folder" },
  EBUSY: mounted,
  ENAMETOOLONG: tooLong,
  EXDEV: {
    code: "failed-precondition",
    text: "the folders below the base folder must be on one file system and in one quota project",
  },
  EAGAIN: broken,
  ESTALE: broken,
  EIO: broken,
  ENOTCONN: broken,
  EHOSTDOWN: broken,
  ETIMEDOUT: broken,
};

const changed: ErrorMapping = { code: "aborted", text: "something in it changed meanwhile; retrying" };

/**
 * The end of an error line of a tool (strerror(3), locale C), and its meaning. Lasting errors come first, those that a change
 * of the tree may have caused last. The middle of a line, with the names of files, is ignored, because a pod chooses them.
 */
const words: readonly (readonly [RegExp, ErrorMapping])[] = [
  [/: No space left on device$/, full],
  [/: Disk quota exceeded$/, quota],
  [/: Read-only file system$/, readOnly],
  [/: (Stale file handle|Input\/output error|Transport endpoint is not connected)$/, broken],
  [/: (Too many levels of symbolic links|Not a directory|Is a directory|No such file or directory)$/, changed],
  [/: (File exists|Directory not empty)$/, changed],
  [/, as it was replaced while being copied$/, changed],
  // Folders that move while they are copied.
  [/^cp: (will not (create hard link|overwrite just-created) |cannot overwrite (non-)?directory )/, changed],
  // A link that became something else.
  [/^(cp: cannot read symbolic link|rsync: .*readlink_stat\().*: Invalid argument$/, changed],
  // A folder that became a file before its default ACL was read (acl_get_file(3), EACCES).
  [/^cp: (['"]).*\1: Permission denied$/, changed],
  [/^rsync: .*sys_acl_get_file\(.*, ACL_TYPE_DEFAULT\): Permission denied$/, changed],
  [/: (Permission denied|Operation not permitted)$/, denied],
  [/: Device or resource busy$/, mounted],
  [/, since it's on a different device$/, foreign],
  [/: File name too long$/, tooLong],
];

function meaningOf(stderr: string): ErrorMapping | undefined {
  // rsync appends the number of the error.
  const lines = stderr.split("\n").map(line => line.replace(/ \(\d+\)$/, ""));
  return words.find(([shape]) => lines.some(line => shape.test(line)))?.[1];
}

/** The meaning of an errno error of the base folder's file system. */
export function explain(error: unknown): ErrorMapping | undefined {
  const errno = errnoOf(error);
  if (errno === undefined) return undefined;
  const known = meanings[errno];
  if (known) return { code: known.code, text: `${known.text} (${errno})` };
  return { code: "internal", text: `${errno}; see the log` };
}

/**
 * The error for a tool that failed. Its own text, which names files of a pod, is for the log only.
 */
export function toolFailure(
  connection: string,
  doing: string,
  tool: string,
  { exitCode, stderr }: Pick<Output, "exitCode" | "stderr">,
): CsiError {
  const { code, text } = meaningOf(stderr) ?? strange;
  const cause = new Error(stderr.trim().slice(-300) || "no message");
  return new CsiError(code, `connection "${connection}": cannot ${doing}: ${text} (${tool} ended with ${exitCode})`, {
    cause,
  });
}

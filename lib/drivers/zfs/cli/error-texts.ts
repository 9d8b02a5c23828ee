import type { Output } from "../../../io/runner.ts";
import { ZfsError, type ZfsFailure } from "../zfs.ts";

/** What zfs writes to stderr (locale C, OpenZFS 2.1 to 2.3), in the order in which it is looked for. */
const words: readonly (readonly [RegExp, ZfsFailure])[] = [
  [/pool I\/O is currently suspended/, "suspended"],
  [/^the (?:names below .* are|mountpoint of .* is) cut$/m, "incomplete"],
  [/no such pool/, "pool-absent"],
  // Two first exports of a host at once: OpenZFS makes the folder for them, and takes it amiss when somebody else has (os/linux/nfs.c).
  [/failed to create \/etc\/exports\.d: File exists/, "busy"],
  [/has dependent clones|snapshot is cloned|has children/, "dependents"],
  [/it's being held|is held|snapshot is held/, "held"],
  [/dataset is busy|pool or dataset is busy|target is busy|is busy|unmount failed/, "busy"],
  [/cannot share '[^']*': legacy share/, "unshared"],
  [/already exists|destination '[^']*' exists/, "exists"],
  [/does not exist|could not find any snapshots|no longer exists/, "absent"],
  [/out of space|no space left|space quota exceeded|quota exceeded|greater than available space/, "full"],
  [/less than current used or reserved|must be a multiple of volume block size/, "size"],
  [
    /[Pp]ermission denied|a password is required|not allowed to execute|must be run as root|not in the sudoers/,
    "denied",
  ],
  [
    /invalid property|is readonly|bad numeric value|value too long|invalid character|name is too long|bad property/,
    "invalid",
  ],
];

const failureOf = (stderr: string): ZfsFailure => words.find(([pattern]) => pattern.test(stderr))?.[1] ?? "other";

const firstLine = (text: string): string => (text.split("\n").find(line => line.trim() !== "") ?? "").slice(0, 300);

/** The error for a command of zfs that ended badly. */
export const refusal = ({ stderr, exitCode }: Output): ZfsError =>
  new ZfsError(failureOf(stderr), firstLine(stderr) || `zfs ended with ${exitCode} and said nothing`);

/** Whether a command that was to destroy something complained that just this is not there. */
export const isGone = ({ stderr }: Output, name: string): boolean =>
  stderr
    .split("\n")
    .some(
      line =>
        (line.startsWith("cannot ") && line.includes(`'${name}': `) && /does not exist|no longer exists/.test(line)) ||
        (name.includes("@") && line.startsWith("could not find any snapshots to destroy")),
    );

/** The complaint that a name does not exist (OpenZFS 2.1 to 2.3, lib/libzfs/libzfs_util.c, zfs_standard_error). */
const absence = /^cannot open '([^']*)': dataset does not exist$/;

/**
 * The names that a reading command said do not exist; the rest of its answer is whole. Throws ZfsError when it complained of anything
 * else, and "incomplete" when it ended badly without a word.
 */
export function missingNames(output: Output): ReadonlySet<string> {
  if (output.exitCode === 0) return new Set();
  const names = output.stderr
    .split("\n")
    .filter(line => line.trim() !== "")
    .map(line => absence.exec(line)?.[1]);
  if (names.length === 0)
    throw new ZfsError("incomplete", `zfs ended with ${output.exitCode} and said nothing; its answer does not count`);
  return new Set(
    names.map(name => {
      if (name === undefined) throw refusal(output);
      return name;
    }),
  );
}

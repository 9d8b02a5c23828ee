import type { Output } from "../../../io/runner.ts";
import type { Outputs } from "../../../io/script.ts";
import { type Entries, type PropertyQuery, ZfsError, type ZfsFailure } from "../zfs.ts";
import { descending, entriesOf, incomplete, isAsked, linesOf } from "./rows.ts";
import { unique } from "./steps.ts";

// An exit code of 0 does not prove that an answer is complete: sudo, a wrapper or a shell between zfs and csimux may lose a part of
// it. A dataset without rows would seem to be gone, and a snapshot without its last row to be foreign. So rows are counted.

/** What zfs writes to stderr (locale C, OpenZFS 2.1 to 2.3); the first match counts. */
const failures: readonly (readonly [RegExp, ZfsFailure])[] = [
  [/pool I\/O is currently suspended/, "suspended"],
  [/^the (?:names below .* are|mountpoint of .* is) cut$/m, "incomplete"],
  [/ was changed by another call$/m, "changed"],
  [/^the host has no flock\(1\) or no folder \/run\/lock/m, "used"],
  [/no such pool/, "pool-absent"],
  // The first two exports of a host at once: OpenZFS fails when someone else creates the folder first (os/linux/nfs.c).
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
    /[Pp]ermission denied|a password is required|not allowed to execute|must be run as root|not in the sudoers|mounted by root|Insufficient privileges/,
    "denied",
  ],
  [
    /invalid property|is readonly|bad numeric value|value too long|invalid character|name is too long|bad property/,
    "invalid",
  ],
];

/** What sudo says at each call while its host cannot look up its own name, for example while the name server is down; the program runs. */
const remark = /^sudo: unable to resolve host /;

/** The lines of a complaint. */
const complaints = (stderr: string): readonly string[] =>
  stderr.split("\n").filter(line => line.trim() !== "" && !remark.test(line));

/** The error for a command of zfs that failed. */
export function refusal({ stderr, exitCode }: Output): ZfsError {
  const failure = failures.find(([pattern]) => pattern.test(stderr))?.[1] ?? "other";
  const line = (complaints(stderr)[0] ?? "").slice(0, 300);
  return new ZfsError(failure, line || `zfs ended with ${exitCode} and no message`);
}

/** Whether a failed command that was to destroy something reported that exactly this does not exist. */
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
 * What zfs says when it cannot continue a list, as behind a damaged dataset. What follows is missing, also in a second list, but it exits
 * with 0 (OpenZFS 2.0 to 2.4, lib/libzfs/libzfs_iter.c, zfs_do_list_ioctl; cmd/zfs/zfs_iter.c, zfs_callback).
 */
const cutShort = /^cannot iterate filesystems: /m;

/** The names reported as absent. Throws ZfsError for any other complaint, and "incomplete" for a failure without a message. */
export function missingNames(output: Output): ReadonlySet<string> {
  if (cutShort.test(output.stderr)) {
    const refused = refusal(output);
    throw refused.failure === "suspended" ? refused : incomplete(refused.message);
  }
  if (output.exitCode === 0) return new Set();
  const lines = complaints(output.stderr);
  if (lines.length === 0)
    throw new ZfsError("incomplete", `zfs ended with ${output.exitCode} and no message; its answer does not count`);
  // Another complaint next to that of an absent name does not mean that something is absent.
  const others = lines.filter(line => !absence.test(line));
  if (others.length > 0) throw refusal({ ...output, stderr: others.join("\n") });
  return new Set(lines.flatMap(line => absence.exec(line)?.[1] ?? []));
}

/** The output of a step. Throws ZfsError when the step was skipped. */
export function outputOf(outputs: Outputs, name: string): Output {
  const output = outputs.get(name);
  if (output === undefined) throw new ZfsError("other", `the step "${name}" was skipped`);
  return output;
}

/** The entries of "read" or "list": those of the query, and below `roots`. Throws ZfsError, "incomplete" if a name is missing. */
export function answerOf(
  outputs: Outputs,
  step: "read" | "list",
  query: PropertyQuery,
  roots: readonly string[],
): Entries {
  const output = outputOf(outputs, step);
  const absent = missingNames(output);
  const found = entriesOf(output.stdout, unique(query.properties), isAsked([...query.names, ...roots], roots));
  const untold = query.names.find(name => !found.has(name) && !absent.has(name));
  if (untold !== undefined) throw incomplete(`it lacks ${untold}`);
  return found;
}

/** The answer of the step "read". Throws "pool-absent" for a pool that is not imported: its contents are unknown. */
export function readEntries(outputs: Outputs, query: PropertyQuery): Entries {
  const found = answerOf(outputs, "read", query, []);
  const pool = query.names.find(name => !/[/@]/.test(name) && !found.has(name));
  if (pool !== undefined) throw new ZfsError("pool-absent", `the pool "${pool}" does not exist or is not imported`);
  return found;
}

/** The names in an answer of `namesStep`; undefined when the dataset does not exist. Throws "incomplete" unless it is the last. */
export function namesDownTo(parent: string, output: Output): readonly string[] | undefined {
  if (missingNames(output).has(parent)) return undefined;
  const names: string[] = [];
  const check = descending();
  for (const name of linesOf(output.stdout)) {
    check(name);
    names.push(name);
  }
  if (names.at(-1) !== parent) throw incomplete(`the names below ${parent} are cut`);
  return names;
}

/** The states of pools by name, from lines of two words each. */
export const poolStates = ({ stdout }: Output): ReadonlyMap<string, string> =>
  new Map(
    stdout.split("\n").flatMap(line => {
      const [name = "", state = ""] = line.split("\t");
      return state === "" ? [] : [[name, state] as const];
    }),
  );

/** Throws why the temporary snapshot of a clone was not taken: one of an earlier attempt stays, or its dataset is absent. */
export function throwUntaken(outputs: Outputs): never {
  const snapshot = refusal(outputOf(outputs, "snapshot"));
  const free = outputOf(outputs, "free");
  throw snapshot.failure === "exists" && free.exitCode !== 0 ? refusal(free) : snapshot;
}

/** The refusal of a clone. A temporary snapshot that was taken and does not exist was destroyed by another call. */
export const becauseOf = (refused: ZfsError, snapshot: Output | undefined): ZfsError =>
  refused.failure === "absent" && snapshot ? new ZfsError("changed", refused.message) : refused;

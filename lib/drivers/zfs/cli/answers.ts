import type { Output } from "../../../io/runner.ts";
import type { Outputs } from "../../../io/script.ts";
import { type Entries, type Entry, type Property, type PropertyQuery, ZfsError, type ZfsFailure } from "../zfs.ts";
import { unique } from "./steps.ts";

// An exit code of 0 does not prove that an answer is complete: sudo, a wrapper or a shell between zfs and csimux may lose a part of
// it. A dataset without rows would seem to be gone, and a snapshot without its last row to be foreign. So rows are counted.

/** The error for an answer with parts that are missing, repeated or in another order. */
export const incomplete = (what: string): ZfsError =>
  new ZfsError("incomplete", `the answer of zfs is not complete: ${what}`);

/** The lines of an answer, one at a time. Throws ZfsError "incomplete" when the last one does not end with a line feed. */
function* linesOf(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf("\n", at);
    if (end < 0) throw incomplete("it ends within a line");
    yield text.slice(at, end);
    at = end + 1;
  }
}

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

/** What the last cell of a row can be (OpenZFS 2.1 to 2.3, lib/libzfs/libzfs_util.c, zprop_print_one_property). */
const source = /^(?:-|none|local|default|received|temporary|inherited from .+)$/;

/** Makes properties; a million rows end with only some hundred different texts (value, tab, source), which share one object each. */
function propertyMaker(): (tail: string, value: string, from: string) => Property {
  const known = new Map<string, Property>();
  return (tail, value, from) => {
    const found = known.get(tail);
    if (found) return found;
    const received = from === "received";
    const made = { value, own: received || from === "local", ...(received && { received }) };
    if (known.size < 1000 && tail.length < 64) known.set(tail, made);
    return made;
  };
}

type Cells = readonly [name: string, property: string, value: Property | undefined];

/** The cells of a row; undefined when the value continues in the next line, as that of a user property may. */
function cellsOf(row: string, make: ReturnType<typeof propertyMaker>): Cells | undefined {
  const [first, second, last] = [row.indexOf("\t"), row.indexOf("\t", row.indexOf("\t") + 1), row.lastIndexOf("\t")];
  const from = row.slice(last + 1);
  if (first < 0 || last <= second || !source.test(from)) return undefined;
  const value = row.slice(second + 1, last);
  const found = value === "-" || value === "" ? undefined : make(row.slice(second + 1), value, from);
  return [row.slice(0, first), row.slice(first + 1, second), found];
}

/** More than a row can have, in bytes: a name (255), a property (256), a value (8191) and its source (zfsprops(7)). */
const longestRow = 16 << 10;

/**
 * The entries in an answer of `zfs get -Hp -o name,property,value,source`: for each name one row for each property, in this order, which
 * zfs prints also for a property without a value. Throws ZfsError "incomplete".
 */
export function entriesOf(text: string, properties: readonly string[]): readonly Entry[] {
  const entries = new Map<string, Map<string, Property>>();
  const make = propertyMaker();
  let [name, at, partial] = ["", 0, ""];
  for (const line of linesOf(text)) {
    partial = partial === "" ? line : `${partial}\n${line}`;
    const cells = cellsOf(partial, make);
    if (!cells && partial.length > longestRow) break;
    if (!cells) continue;
    partial = "";
    const [of, property, value] = cells;
    const expected = properties[at];
    if (at === 0 && !entries.has(of)) {
      name = of;
      entries.set(of, new Map());
    } else if (at === 0 || of !== name) throw incomplete(`a row of ${of} is out of order`);
    if (property !== expected) throw incomplete(`the ${expected} of ${name} is missing`);
    if (value) entries.get(name)?.set(expected, value);
    at = (at + 1) % properties.length;
  }
  if (at !== 0 || partial !== "") throw incomplete(`the rows of ${name} are cut`);
  return [...entries].map(([each, all]) => ({ name: each, properties: all }));
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
  const found = new Map(entriesOf(output.stdout, unique(query.properties)).map(entry => [entry.name, entry]));
  const untold = query.names.find(name => !found.has(name) && !absent.has(name));
  if (untold !== undefined) throw incomplete(`it lacks ${untold}`);
  const names = new Set(query.names);
  const strange = [...found.keys()].find(name => !names.has(name) && !roots.some(root => isBelow(name, root)));
  if (strange !== undefined) throw incomplete(`it shows ${strange}, which was not asked for`);
  return found;
}

/** Whether a snapshot, file system or zvol lies below a dataset. */
export const isBelow = (name: string, parent: string): boolean =>
  name.startsWith(parent) && /^[/@]/.test(name.slice(parent.length));

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
  for (const name of linesOf(output.stdout)) {
    const last = names.at(-1);
    if (last !== undefined && name >= last) throw incomplete(`${name} is out of order`);
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

import type { Output } from "../../../io/runner.ts";
import type { Outputs } from "../../../io/script.ts";
import { type Entries, type Entry, type Property, type PropertyQuery, ZfsError, type ZfsFailure } from "../zfs.ts";
import { asked } from "./steps.ts";

// An exit code of 0 does not prove that an answer has arrived: sudo, a wrapper or a shell between zfs and csimux may lose a part of
// it. A dataset that is not read is taken for gone, and a snapshot whose last row is not read for nobody's. So rows are counted.

/** The error for an answer of which a part is missing, or has come twice or in another order. */
export const incomplete = (what: string): ZfsError =>
  new ZfsError("incomplete", `the answer of zfs is not complete: ${what}`);

/** The lines of an answer, one at a time. Throws ZfsError "incomplete" when the last one does not end with a line feed. */
export function* linesOf(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf("\n", at);
    if (end < 0) throw incomplete("it ends within a line");
    yield text.slice(at, end);
    at = end + 1;
  }
}

/** What the last cell of a row can be (OpenZFS 2.1 to 2.3, lib/libzfs/libzfs_util.c, zprop_print_one_property). */
const source = /^(?:-|none|local|default|received|temporary|inherited from .+)$/;

/** Properties by what their rows end with: most of a million rows end like some hundred others, and need no object of their own. */
class PropertyCache {
  readonly #all = new Map<string, Property>();

  /** `tail`: value and source with a tab between them; `value` and `from`: the same two. */
  property(tail: string, value: string, from: string): Property {
    const known = this.#all.get(tail);
    if (known) return known;
    const received = from === "received";
    const made = { value, own: received || from === "local", ...(received && { received }) };
    if (this.#all.size < 1000 && tail.length < 64) this.#all.set(tail, made);
    return made;
  }
}

/** The cells of a row; undefined when the value goes on in the next line, as the value of a user property may. */
function cellsOf(row: string, known: PropertyCache): readonly [string, string, Property | undefined] | undefined {
  const [first, second, last] = [row.indexOf("\t"), row.indexOf("\t", row.indexOf("\t") + 1), row.lastIndexOf("\t")];
  const from = row.slice(last + 1);
  if (first < 0 || last <= second || !source.test(from)) return undefined;
  const value = row.slice(second + 1, last);
  const found = value === "-" || value === "" ? undefined : known.property(row.slice(second + 1), value, from);
  return [row.slice(0, first), row.slice(first + 1, second), found];
}

/** More than a row can have, in bytes: a name (255), a property (256), a value (8191) and where that is from (zfsprops(7)). */
const longestRow = 16 << 10;

/**
 * The rows of `zfs get -Hp -o name,property,value,source` for these properties, in the order in which the names appear: for each
 * name one row for each property, in this order, which zfs prints also where a property has no value. Throws ZfsError "incomplete".
 */
export function entriesOf(text: string, properties: readonly string[]): readonly Entry[] {
  const entries = new Map<string, Map<string, Property>>();
  const known = new PropertyCache();
  let [name, at, begun] = ["", 0, ""];
  for (const line of linesOf(text)) {
    begun = begun === "" ? line : `${begun}\n${line}`;
    const cells = cellsOf(begun, known);
    if (!cells && begun.length > longestRow) break;
    if (!cells) continue;
    begun = "";
    const [of, property, found] = cells;
    const wanted = properties[at];
    if (at === 0 && !entries.has(of)) {
      name = of;
      entries.set(of, new Map());
    } else if (at === 0 || of !== name) throw incomplete(`a row of ${of} is where it should not be`);
    if (property !== wanted) throw incomplete(`the ${wanted} of ${name} is missing`);
    if (found) entries.get(name)?.set(wanted, found);
    at = (at + 1) % properties.length;
  }
  if (at !== 0 || begun !== "") throw incomplete(`the rows of ${name} are cut`);
  return [...entries].map(([each, all]) => ({ name: each, properties: all }));
}

/** The same by name. */
export const byName = (entries: readonly Entry[]): Entries => new Map(entries.map(entry => [entry.name, entry]));

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

/** The output of a step of a script. Throws ZfsError when it was left out. */
export function outputOf(outputs: Outputs, name: string): Output {
  const output = outputs.get(name);
  if (output === undefined) throw new ZfsError("other", `the step "${name}" was left out`);
  return output;
}

/**
 * What zfs get said of these names and of what lies below `roots`. Throws ZfsError: what zfs refused, or "incomplete" where it neither
 * showed a name nor said that this does not exist.
 */
function answered(output: Output, { names, properties }: PropertyQuery, roots: readonly string[]): readonly Entry[] {
  const absent = missingNames(output);
  const found = entriesOf(output.stdout, asked(properties));
  const seen = new Set(found.map(({ name }) => name));
  const untold = names.find(name => !seen.has(name) && !absent.has(name));
  if (untold !== undefined) throw incomplete(`it says nothing of ${untold}`);
  const wanted = new Set(names);
  const isWanted = (name: string) => wanted.has(name) || roots.some(root => isBelow(name, root));
  const strange = found.find(({ name }) => !isWanted(name));
  if (strange) throw incomplete(`it tells of ${strange.name}, which was not asked for`);
  return found;
}

const isBelow = (name: string, parent: string): boolean =>
  name.startsWith(parent) && /^[/@]/.test(name.slice(parent.length));

/** What "list" found below `roots`, and of the names of `look`. Throws as `entries`. */
export const listed = (outputs: Outputs, look: PropertyQuery, roots: readonly string[]): readonly Entry[] =>
  answered(outputOf(outputs, "list"), look, roots);

/**
 * The names of a dataset and of what lies below it, from the last in their order to the dataset itself, which so proves that nothing is
 * cut off. Undefined when the dataset does not exist. Throws ZfsError.
 */
export function namesDownTo(parent: string, output: Output): readonly string[] | undefined {
  if (missingNames(output).has(parent)) return undefined;
  const names: string[] = [];
  for (const name of linesOf(output.stdout)) {
    const last = names.at(-1);
    if (last !== undefined && name >= last) throw incomplete(`${name} is where it should not be`);
    names.push(name);
  }
  if (names.at(-1) !== parent) throw incomplete(`the names below ${parent} are cut`);
  return names;
}

/** The states of pools by their names, from lines of two words each. */
export const states = ({ stdout }: Output): ReadonlyMap<string, string> =>
  new Map(
    stdout.split("\n").flatMap(line => {
      const [name = "", state = ""] = line.split("\t");
      return state === "" ? [] : [[name, state] as const];
    }),
  );

/** What "look" found. A pool that is not there was not imported: nothing is known of what is in it. */
export function entries(outputs: Outputs, look: PropertyQuery): Entries {
  const found = byName(answered(outputOf(outputs, "look"), look, []));
  const pool = look.names.find(name => !/[/@]/.test(name) && !found.has(name));
  if (pool !== undefined) throw new ZfsError("pool-absent", `the pool "${pool}" is not there or not imported`);
  return found;
}

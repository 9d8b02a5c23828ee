import { type Entry, type Property, ZfsError } from "../zfs.ts";

// The lines of zfs get and zfs list, which are checked one by one: those that cannot be right end the program.

/** The error for an answer with parts that are missing, repeated or in another order. */
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
 * Returns a function for the rows of `zfs get -Hp -o name,property,value,source`, one line after the other: for each name one row for each
 * property, in this order, which zfs prints also for a property without a value. It throws ZfsError "incomplete" for the first line that cannot
 * be right, and returns whether a row may end here. `take` gets each row.
 */
export function rowReader(
  properties: readonly string[],
  isExpected: (name: string) => boolean,
  take: (name: string, property: string, value: Property | undefined) => void = () => {},
): (line: string) => boolean {
  const seen = new Set<string>();
  const make = propertyMaker();
  let [name, at, partial] = ["", 0, ""];
  return line => {
    partial = partial === "" ? line : `${partial}\n${line}`;
    const cells = cellsOf(partial, make);
    if (!cells && partial.length > longestRow) throw incomplete(`the rows of ${name} are cut`);
    if (!cells) return false;
    partial = "";
    const [of, property, value] = cells;
    if (at === 0 && !seen.has(of)) {
      if (!isExpected(of)) throw incomplete(`it shows ${of}, which was not asked for`);
      name = of;
      seen.add(of);
    } else if (of !== name || at === 0) throw incomplete(`a row of ${of} is out of order`);
    const expected = properties[at];
    if (property !== expected) throw incomplete(`the ${expected} of ${name} is missing`);
    take(of, property, value);
    at = (at + 1) % properties.length;
    return at === 0;
  };
}

/** The entries in such an answer by name. Throws ZfsError "incomplete". */
export function entriesOf(
  text: string,
  properties: readonly string[],
  isExpected: (name: string) => boolean,
): Map<string, Entry> {
  const found = new Map<string, Map<string, Property>>();
  const read = rowReader(properties, isExpected, (name, property, value) => {
    if (property === properties[0]) found.set(name, new Map());
    if (value) found.get(name)?.set(property, value);
  });
  let isWhole = true;
  for (const line of linesOf(text)) isWhole = read(line);
  if (!isWhole) throw incomplete(`the rows of ${[...found.keys()].at(-1)} are cut`);
  return new Map([...found].map(([name, all]) => [name, { name, properties: all }]));
}

/** Returns a function for the lines of a list of names, which throws ZfsError "incomplete" unless each is before the last one. */
export function descending(isExpected: (name: string) => boolean = () => true): (name: string) => void {
  let last: string | undefined;
  return name => {
    if (last !== undefined && name >= last) throw incomplete(`${name} is out of order`);
    if (!isExpected(name)) throw incomplete(`it shows ${name}, which was not asked for`);
    last = name;
  };
}

/** Whether a name is one of these, or below a root. */
export function isAsked(names: readonly string[], roots: readonly string[]): (name: string) => boolean {
  const known = new Set(names);
  return name => known.has(name) || roots.some(root => isBelow(name, root));
}

/** Whether a snapshot, file system or zvol lies below a dataset. */
export const isBelow = (name: string, parent: string): boolean =>
  name.startsWith(parent) && /^[/@]/.test(name.slice(parent.length));

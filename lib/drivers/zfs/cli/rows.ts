import { type Entries, type Entry, type Property, ZfsError } from "../zfs.ts";

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

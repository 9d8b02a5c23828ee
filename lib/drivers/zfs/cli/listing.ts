import type { Outputs, Step } from "../../../io/script.ts";
import type { DatasetType, Entries, Entry, PropertyQuery, SnapshotName, SnapshotsOfName } from "../zfs.ts";
import { byName, entries, incomplete, listed, namesDownTo, outputOf } from "./answers.ts";
import {
  asked,
  type CommandPrefixes,
  listingBytes,
  listStep,
  lookStep,
  namedArgv,
  namesStep,
  withParent,
} from "./steps.ts";

// Names alone are listed, which zfs does without reading anything else of a snapshot.

/** The kinds that a copy of a snapshot can be. */
const datasets = ["filesystem", "volume"] as const;

/** Lists what has a name with `part` in it. The step is called after the dataset that it looks below. */
const named = (words: CommandPrefixes, part: string, below: string, kinds: readonly DatasetType[]): Step => ({
  name: `below ${below}`,
  argv: namedArgv(words, part, below, kinds),
  reads: true,
  onFailure: "go-on",
  maxBytes: listingBytes,
});

/** Lists all snapshots of what lies directly below `parent`, and all that lies below `copies`. */
export const allNames = (words: CommandPrefixes, parent: string, copies: string): readonly Step[] => [
  named(words, "@", parent, ["snapshot"]),
  named(words, "/", copies, datasets),
];

/** Lists what has the name of a snapshot, and a little more. */
export const sameNames = (words: CommandPrefixes, { name, parent, copies }: SnapshotName): readonly Step[] => [
  named(words, `@${name}`, parent, ["snapshot"]),
  ...(copies === undefined ? [] : [named(words, `/${name}`, copies, datasets)]),
];

/** What was listed below a dataset; nothing when it is not there. */
const namesBelow = (outputs: Outputs, below: string): readonly string[] =>
  namesDownTo(below, outputOf(outputs, `below ${below}`))?.slice(0, -1) ?? [];

/** The last parts of the names below a dataset: of snapshots, what comes after "@". */
export const lastParts = (outputs: Outputs, below: string): readonly string[] =>
  namesBelow(outputs, below).map(line => line.slice(line.search(/[^@/]*$/)));

/** Of what `sameNames` listed, what has the very name. */
export function snapshotsOfNameIn(
  outputs: Outputs,
  { name, parent, copies }: SnapshotName,
): Omit<SnapshotsOfName, "entries"> {
  const holders = namesBelow(outputs, parent).filter(line => line.endsWith(`@${name}`));
  return {
    holders: holders.map(line => line.slice(0, -name.length - 1)),
    copies: copies === undefined ? [] : namesBelow(outputs, copies).filter(line => line.endsWith(`/${name}`)),
  };
}

/** What a listing needs of who calls zfs. */
interface ListingPorts {
  readonly words: CommandPrefixes;
  run(steps: readonly Step[]): Promise<Outputs>;
  read(look: PropertyQuery): Promise<Entries>;
}

/** How many datasets or snapshots can be made between two commands; their names are words of a third one (execve(2): 128 KiB). */
const mostLater = 256;

/**
 * The rows alone do not tell where they end, so the step "names" lists the names after them, in an order in which the parent is the
 * last. A name without rows was made in between, or its rows were lost: it is read by its name. Undefined when there is no parent.
 * Throws ZfsError. `isAsked`: of which names there are rows.
 */
export async function completed(
  { read }: Pick<ListingPorts, "read">,
  parent: string,
  outputs: Outputs,
  rows: { readonly found: Entries; readonly properties: readonly string[] },
  isAsked: (name: string) => boolean = () => true,
): Promise<Entries | undefined> {
  const names = namesDownTo(parent, outputOf(outputs, "names"));
  if (!names) return undefined;
  const later = names.filter(name => !rows.found.has(name) && isAsked(name));
  if (later.length === 0) return rows.found;
  if (later.length > mostLater) throw incomplete(`it lacks ${later.length} names that zfs list shows`);
  return new Map([...rows.found, ...(await read({ names: later, properties: rows.properties }))]);
}

/** As Zfs.below. */
export async function listedBelow(
  { words, run, read }: ListingPorts,
  parent: string,
  kinds: readonly DatasetType[],
  properties: readonly string[],
  depth: 1 | 2,
): Promise<readonly Entry[]> {
  const [pool = ""] = parent.split("/");
  const look = { names: [pool], properties: ["type"] };
  const all = asked([...properties, "type"]);
  const ofDatasets = kinds.some(kind => kind !== "snapshot");
  const shown = ofDatasets ? withParent(kinds) : kinds;
  const list = listStep(words, [parent], shown, all, depth);
  const outputs = await run([list, namesStep(words, parent, shown, depth), lookStep(words, look)]);
  entries(outputs, look);
  const found = byName(listed(outputs, { names: ofDatasets ? [parent] : [], properties: all }, [parent]));
  const rows = { found, properties: all };
  const whole = await completed({ read }, parent, outputs, rows, name => ofDatasets || name.includes("@"));
  const isWanted = (entry: Entry) => kinds.some(kind => kind === entry.properties.get("type")?.value);
  return [...(whole?.values() ?? [])].filter(isWanted);
}

/** How long a listing is believed, in milliseconds: what other processes take meanwhile is seen after that. */
const freshMs = 15 * 60_000;

/**
 * Names of snapshots that may be taken. A name must be one volume's only (CSI CreateSnapshot), and ZFS finds that out by naming all
 * snapshots of a pool; so they are listed once in a while, and not for every snapshot. Only a name that is here has to be looked
 * for.
 */
export class TakenNames {
  readonly #list: (signal: AbortSignal) => Promise<readonly string[]>;
  readonly #now: () => number;
  #listed: ReadonlySet<string> = new Set();
  /** Those that came after the listing was begun. */
  #added = new Set<string>();
  #since = Number.NEGATIVE_INFINITY;

  /** `now` gives milliseconds of a clock that never jumps. */
  constructor(list: (signal: AbortSignal) => Promise<readonly string[]>, now: () => number = () => performance.now()) {
    this.#list = list;
    this.#now = now;
  }

  /** Whether a snapshot may have this name, which is taken from now on. Throws what the listing throws. */
  async take(name: string, signal: AbortSignal): Promise<boolean> {
    if (this.#now() - this.#since > freshMs) await this.#refresh(signal);
    const taken = this.#listed.has(name) || this.#added.has(name);
    this.#added.add(name);
    return taken;
  }

  async #refresh(signal: AbortSignal): Promise<void> {
    const began = this.#now();
    const listed = await this.#list(signal);
    // What came before it was listed need not be in it yet, so it is kept once more.
    this.#listed = new Set([...listed, ...this.#added]);
    this.#added = new Set();
    this.#since = began;
  }
}

import type { Outputs, Step } from "../../../io/script.ts";
import type { DatasetType, Entries, Entry, PropertyQuery } from "../zfs.ts";
import { entries, listed, namesDownTo, outputOf } from "./outputs.ts";
import { byName, incomplete } from "./rows.ts";
import { asked, type CommandPrefixes, listStep, lookStep, namesStep, withParent } from "./steps.ts";

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

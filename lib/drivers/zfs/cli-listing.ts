import type { Outputs, Step } from "../../io/script.ts";
import { entries, listed, namesDownTo, outputOf } from "./cli-outputs.ts";
import { byName, incomplete } from "./cli-rows.ts";
import { asked, type CliWords, listStep, lookStep, namesStep, withParent } from "./cli-steps.ts";
import type { Entries, Entry, Kind, Look } from "./zfs.ts";

/** What a listing needs of who calls zfs. */
interface Caller {
  readonly words: CliWords;
  run(steps: readonly Step[]): Promise<Outputs>;
  read(look: Look): Promise<Entries>;
}

/** How many datasets or snapshots can be made between two commands; their names are words of a third one (execve(2): 128 KiB). */
const mostLater = 256;

/**
 * As Zfs.below. The rows alone do not tell where they end, so the names are listed after them, in an order in which the parent is the
 * last. A name without rows was made in between, or its rows were lost: it is read by its name.
 */
export async function listedBelow(
  { words, run, read }: Caller,
  parent: string,
  kinds: readonly Kind[],
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
  const names = namesDownTo(parent, outputOf(outputs, "names"));
  if (!names) return [];
  const found = byName(listed(outputs, { names: ofDatasets ? [parent] : [], properties: all }, [parent]));
  const later = names.filter(name => !found.has(name) && (ofDatasets || name.includes("@")));
  if (later.length > mostLater) throw incomplete(`it lacks ${later.length} names that zfs list shows`);
  const more = later.length === 0 ? [] : (await read({ names: later, properties: all })).values();
  const isWanted = (entry: Entry) => kinds.some(kind => kind === entry.properties.get("type")?.value);
  return [...found.values(), ...more].filter(isWanted);
}

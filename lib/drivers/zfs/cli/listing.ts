import type { Outputs, Step } from "../../../io/script.ts";
import type { DatasetType, Depth, Entries, Entry, PropertyQuery, SnapshotName } from "../zfs.ts";
import { answerOf, namesDownTo, outputOf, readEntries } from "./answers.ts";
import { descending, incomplete, isAsked, isBelow } from "./rows.ts";
import {
  listingBytes,
  listStep,
  namedArgv,
  namesStep,
  type Programs,
  readStep,
  unique,
  withParent,
  type ZfsCalls,
} from "./steps.ts";

/** The most datasets or snapshots that appear between two commands; their names are words of a third one (execve(2): 128 KiB). */
const mostLater = 256;

/**
 * Completes the rows of a listing. Rows alone do not show where they end, so the step "names" lists the names after them, in an order
 * in which the parent is the last. A name without rows is new, or its rows were lost: it is read by its name. Undefined when
 * there is no parent. `isListed`: whether the listing has rows of a name. Throws ZfsError.
 */
async function completed(
  { read }: ZfsCalls,
  parent: string,
  outputs: Outputs,
  found: Entries,
  properties: readonly string[],
  isListed: (name: string) => boolean,
): Promise<Entries | undefined> {
  const names = namesDownTo(parent, outputOf(outputs, "names"));
  if (!names) return undefined;
  const later = names.filter(name => !found.has(name) && isListed(name));
  if (later.length === 0) return found;
  if (later.length > mostLater) throw incomplete(`it lacks ${later.length} names that zfs list shows`);
  return new Map([...found, ...(await read({ names: later, properties }))]);
}

/** As Zfs.below. */
export async function listBelow(
  calls: ZfsCalls,
  parent: string,
  types: readonly DatasetType[],
  properties: readonly string[],
  depth: Depth,
): Promise<readonly Entry[]> {
  const { programs, run } = calls;
  const [pool = ""] = parent.split("/");
  const query = { names: [pool], properties: ["type"] };
  const all = unique([...properties, "type"]);
  const ofDatasets = types.some(type => type !== "snapshot");
  const shown = ofDatasets ? withParent(types) : types;
  const list = listStep(programs, [parent], shown, all, depth);
  const names = namesStep(programs, [parent], shown, depth);
  // What exists in a pool proves that it is imported. Where nothing does, the pool is asked for.
  const outputs = await run([list, names, { ...readStep(programs, query), unless: names.name }]);
  if (outputOf(outputs, names.name).exitCode !== 0) readEntries(outputs, query);
  const found = answerOf(outputs, "list", { names: ofDatasets ? [parent] : [], properties: all }, [parent]);
  const isListed = (name: string) => ofDatasets || name.includes("@");
  const entries = await completed(calls, parent, outputs, found, all, isListed);
  return [...(entries?.values() ?? [])].filter(({ properties: of }) =>
    types.some(type => type === of.get("type")?.value),
  );
}

/**
 * As Zfs.family. The ancestors of a dataset that exists are not read; only where it does not exist, the pool may be missing. A lost
 * name below it would let a target or share be removed before zfs refuses to destroy the dataset. `onlyDestroyed`: nothing is removed before, and
 * zfs destroys no dataset with something below it, so that one that seems to be alone needs no second command.
 */
export async function listFamily(
  calls: ZfsCalls,
  dataset: string,
  query: PropertyQuery,
  onlyDestroyed: boolean,
): Promise<Entries> {
  const { programs, run, read } = calls;
  const { properties } = query;
  const names = [dataset, ...query.names.filter(name => name !== dataset && !dataset.startsWith(`${name}/`))];
  const types = ["filesystem", "volume", "snapshot"] as const;
  const list = listStep(programs, names, types, properties, 1);
  const namesAfter = namesStep(programs, [dataset], types, 1);
  const first = await run(onlyDestroyed ? [list] : [list, namesAfter]);
  const found = answerOf(first, "list", { names, properties }, names);
  const isAlone = found.has(dataset) && ![...found.keys()].some(name => isBelow(name, dataset));
  if (onlyDestroyed && isAlone) return found;
  const outputs = onlyDestroyed ? await run([namesAfter]) : first;
  const family = await completed(calls, dataset, outputs, found, properties, () => true);
  if (family) return family;
  const others = await read(query);
  if (others.has(dataset)) throw incomplete(`${dataset} appeared while it was read`);
  return others;
}

/** As Zfs.families. The names in descending order end with the last dataset, which proves that none is cut off. */
export async function listFamilies(
  calls: ZfsCalls,
  datasets: readonly string[],
  properties: readonly string[],
): Promise<Entries> {
  const { programs, run } = calls;
  const [last, ...others] = [...datasets].sort();
  if (last === undefined) return new Map();
  const types = ["filesystem", "volume", "snapshot"] as const;
  const list = listStep(programs, datasets, types, properties, 1);
  const outputs = await run([list, namesStep(programs, [last, ...others], types, 1)]);
  const found = answerOf(outputs, "list", { names: datasets, properties }, datasets);
  // One that was destroyed meanwhile needs no proof, and there may be others then.
  if (datasets.some(name => !found.has(name))) {
    const left = datasets.filter(name => found.has(name));
    return listFamilies(calls, left, properties);
  }
  return (await completed(calls, last, outputs, found, properties, () => true)) ?? new Map();
}

/** Lists what has a name with `part` in it, by names alone, which zfs knows without reading anything else. */
const namedStep = (programs: Programs, part: string, below: string, types: readonly DatasetType[]): Step => ({
  name: `below ${below}`,
  argv: namedArgv(programs, part, below, types),
  check: () => descending(isAsked([below], [below])),
  reads: true,
  onFailure: "go-on",
  maxBytes: listingBytes,
});

/** Lists the snapshots called `name` in children of `parent`, and the copies below `copies`; and a little more. "": all of them. */
export const snapshotSteps = (programs: Programs, { name, parent, copies }: SnapshotName): readonly Step[] => [
  namedStep(programs, `@${name}`, parent, ["snapshot"]),
  ...(copies === undefined ? [] : [namedStep(programs, `/${name}`, copies, ["filesystem", "volume"])]),
];

/** The names that `snapshotSteps` listed below a dataset; none when it does not exist. */
export const namesBelow = (outputs: Outputs, below: string): readonly string[] =>
  namesDownTo(below, outputOf(outputs, `below ${below}`))?.slice(0, -1) ?? [];

import type { Outputs, Step } from "../../../io/script.ts";
import type { DatasetType, SnapshotName, SnapshotsOfName } from "../zfs.ts";
import { namesDownTo, outputOf } from "./outputs.ts";
import { type CommandPrefixes, listingBytes, namedArgv } from "./steps.ts";

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

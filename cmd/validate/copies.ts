import { type CopyWays, copyMatrix, copyWays, type TargetsData } from "../../lib/copies/matrix.ts";
import type { CopyWay } from "../../lib/drivers/copying.ts";
import { copyEnds, copySettingsOf } from "../../lib/lint/copy-ends.ts";
import { factsOf, isLocal } from "../../lib/lint/facts.ts";
import type { ConnectionFile, LintInput } from "../../lib/lint/lint-input.ts";
import { targetNames, waysText } from "../copies/ways-text.ts";
import { someOf } from "../terminal/table.ts";

/** The most kinds of sources that people are shown, and that JSON has. */
const mostShown = 20;
const mostListed = 200;

/** The most names in one line. */
const mostNames = 6;

/** The ways between the connections of a deployment; undefined if it has fewer than two valid files. */
function waysOf(input: LintInput, most: number): CopyWays | undefined {
  const ends = copyEnds(input);
  return ends.length < 2 ? undefined : copyWays(copyMatrix(ends, copySettingsOf(input), most));
}

/** In text: which connection's content can become a volume on which other one, by which way, and why not. Empty for fewer than two connections. */
export function copyNotes(input: LintInput): string {
  const ways = waysOf(input, mostShown);
  if (!ways) return "";
  const head = "copies between connections, as far as the files say:";
  if (!copySettingsOf(input).enabled) return `${head} none, because "proxy.copies.enabled" is false\n`;
  const { rows, omitted } = ways;
  const lines = [
    ...rows.flatMap(({ from, targets }) => [
      `  from ${names(from)}`,
      ...targets.map(each => `    ${targetText(each)}`),
    ]),
    ...(omitted.length > 0 ? [`  and from ${names(omitted)}, each with other ways; name fewer files to see them`] : []),
    ...nothings(ways).map(each => `  ${each}`),
    ...remarks(input, ways).map(each => `  ${each}`),
  ];
  return `${head}\n${lines.join("\n")}\n`;
}

const names = (all: readonly string[]): string => someOf(all, mostNames);

function targetText(targets: TargetsData): string {
  const all = targetNames(targets, names);
  const isRefused = targets.why !== undefined && !targets.onOneMachine;
  return `${isRefused ? "not to" : "to"} ${all}: ${waysText(targets)}`;
}

/** Connections between which and others nothing is copied. */
function nothings({ givesNothing, takesNothing }: CopyWays): readonly string[] {
  const neither = givesNothing.filter(name => takesNothing.includes(name));
  const [gives, takes] = [givesNothing, takesNothing].map(all => all.filter(name => !neither.includes(name)));
  const line = (what: string, all: readonly string[] = []) => (all.length > 0 ? [`${what}: ${names(all)}`] : []);
  return [
    ...line("neither give nor take content of other connections", neither),
    ...line("give no content to other connections", gives),
    ...line("take no content of other connections", takes),
  ];
}

/** What the files do not say, or what else must be so. */
function remarks({ connections }: LintInput, { rows, givesNothing }: CopyWays): readonly string[] {
  const ways = new Set<CopyWay>();
  for (const { targets } of rows)
    for (const { snapshots, onOneMachine } of targets)
      for (const way of [...snapshots, ...(onOneMachine?.snapshots ?? [])]) ways.add(way);
  const streams = ways.has("stream") || ways.has("stream-here");
  const named = (line: string, is: (each: ConnectionFile) => boolean | undefined) => {
    const all = connections.filter(is).map(({ name }) => name);
    return all.length > 0 ? [line.replace("…", names(all))] : [];
  };
  return [
    ...(streams ? ["stream, stream-here: zfs send and zfs receive, through csimux or within one machine"] : []),
    ...(ways.has("files") ? ["files: rsync and setpriv, which must be installed where csimux runs"] : []),
    ...(ways.has("fill") ? ["fill: the tool of the repository restores a snapshot"] : []),
    ...(streams ? ["encrypted content is refused where the new volume would not be encrypted"] : []),
    ...(streams
      ? named('  unless it comes from …: "copies.allowPlain"', ({ read }) => read.config?.copies.allowPlain)
      : []),
    ...named('… could with "copies.sshConnection"', each => factsOf(each)?.copySsh && givesNothing.includes(each.name)),
    ...(rows.length > 0 ? named("only a csimux on their node, with both files, copies …", isLocal) : []),
    ...(rows.length > 0
      ? named("suspended, so they take no new volumes: …", ({ read }) => read.config?.suspended)
      : []),
  ];
}

/** The same for programs; empty for fewer than two connections. */
export function copyData(input: LintInput): readonly CopyWays[] {
  const ways = waysOf(input, mostListed);
  return ways ? [ways] : [];
}

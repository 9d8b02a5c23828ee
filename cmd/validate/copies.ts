import type { CopyWay } from "../../lib/drivers/copying.ts";
import { copyEnds, copySettingsOf } from "../../lib/lint/copy-ends.ts";
import { factsOf, isLocal } from "../../lib/lint/facts.ts";
import type { ConnectionFile, LintInput } from "../../lib/lint/lint-input.ts";
import { type CopyMatrix, copyMatrix, type MatrixReach, type Targets } from "../../lib/mux/copying/matrix.ts";
import { someOf } from "../terminal/table.ts";

/** The most kinds of sources that people are shown, and that JSON has. */
const mostShown = 20;
const mostListed = 200;

/** The most names in one line. */
const mostNames = 6;

/** The ways between the connections of a deployment; undefined if it has fewer than two valid files. */
function matrixOf(input: LintInput, most: number): CopyMatrix | undefined {
  const ends = copyEnds(input);
  return ends.length < 2 ? undefined : copyMatrix(ends, copySettingsOf(input), most);
}

/** In text: which connection's content can become a volume on which other one, by which way, and why not. Empty for fewer than two connections. */
export function copyNotes(input: LintInput): string {
  const matrix = matrixOf(input, mostShown);
  if (!matrix) return "";
  const head = "copies between connections, as far as the files say:";
  if (!copySettingsOf(input).enabled) return `${head} none, because "proxy.copies.enabled" is false\n`;
  const { rows, left } = matrix;
  const lines = [
    ...rows.flatMap(({ from, targets }) => [
      `  from ${names(from)}`,
      ...targets.map(each => `    ${targetText(each)}`),
    ]),
    ...(left.length > 0 ? [`  and from ${names(left)}, each with other ways; name fewer files to see them`] : []),
    ...nothings(matrix).map(each => `  ${each}`),
    ...remarks(input, matrix).map(each => `  ${each}`),
  ];
  return `${head}\n${lines.join("\n")}\n`;
}

const names = (all: readonly string[]): string => someOf(all, mostNames);

function targetText({ to, isMutual, reach, onOneMachine }: Targets): string {
  const all = [...(isMutual ? ["each other"] : []), ...(to.length > 0 ? [names(to)] : [])].join(" and ");
  if (reach.kind === "refused" && !onOneMachine) return `not to ${all}: ${reach.why}`;
  const elsewhere = onOneMachine ? `; on one machine: ${reachText(onOneMachine)}` : "";
  return `to ${all}: ${reachText(reach)}${elsewhere}`;
}

function reachText(reach: MatrixReach): string {
  if (reach.kind === "refused") return reach.why;
  const { volume, snapshot } = reach;
  const more = snapshot.filter(way => !volume.includes(way));
  const own = more.length > 0 ? [`${more.join(", else ")} from snapshots in a repository`] : [];
  return [...(volume.length > 0 ? [volume.join(", else ")] : []), ...own].join(", or ");
}

/** Connections between which and others nothing is copied. */
function nothings({ givesNothing, takesNothing }: CopyMatrix): readonly string[] {
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
function remarks({ connections }: LintInput, { rows, givesNothing }: CopyMatrix): readonly string[] {
  const ways = new Set<CopyWay>();
  for (const { targets } of rows)
    for (const { reach, onOneMachine } of targets)
      for (const each of [reach, onOneMachine])
        for (const way of each?.kind === "ways" ? each.snapshot : []) ways.add(way);
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
export function copyData(input: LintInput): readonly object[] {
  const matrix = matrixOf(input, mostListed);
  if (!matrix) return [];
  const { rows, left, givesNothing, takesNothing } = matrix;
  return [
    {
      rows: rows.map(({ from, targets }) => ({
        from,
        targets: targets.map(({ to, isMutual, reach, onOneMachine }) => ({
          ...{ to, eachOther: isMutual, ...reachData(reach) },
          ...(onOneMachine && { onOneMachine: reachData(onOneMachine) }),
        })),
      })),
      ...{ omitted: left, givesNothing, takesNothing },
    },
  ];
}

const reachData = (reach: MatrixReach): object =>
  reach.kind === "ways"
    ? { volumes: reach.volume, snapshots: reach.snapshot }
    : { volumes: [], snapshots: [], because: reach.because, why: reach.why };

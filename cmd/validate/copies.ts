import { copyEnds, copySettingsOf } from "../../lib/lint/copy-ends.ts";
import { factsOf, isLocal } from "../../lib/lint/facts.ts";
import type { ConnectionFile, LintInput } from "../../lib/lint/lint-input.ts";
import { someOf } from "../terminal/table.ts";
import { type CopyMethods, type CopyReach, type CopyTargets, copyMethods } from "./copy-matrix.ts";

/** The most kinds of sources that people are shown, and that JSON has. */
const mostShown = 20;
const mostListed = 200;

/** The most names in one line. */
const mostNames = 6;

/** The methods between the connections of a deployment; undefined if it has fewer than two valid files. */
function methodsOf(input: LintInput, most: number): CopyMethods | undefined {
  const ends = copyEnds(input);
  return ends.length < 2 ? undefined : copyMethods(ends, copySettingsOf(input), most);
}

/** In text: which connection's content can become a volume on which other one, by which method, and why not. Empty for fewer than two connections. */
export function copyNotes(input: LintInput): string {
  const methods = methodsOf(input, mostShown);
  if (!methods) return "";
  const head = "copies between connections, as far as the files say:";
  if (!copySettingsOf(input).enabled) return `${head} none, because "proxy.copies.enabled" is false\n`;
  const { rows, omitted } = methods;
  const lines = [
    ...rows.flatMap(({ from, targets }) => [
      `  from ${names(from)}`,
      ...targets.map(each => `    ${targetText(each)}`),
    ]),
    ...(omitted.length > 0
      ? [`  and from ${names(omitted)}, each with other methods; name fewer files to see them`]
      : []),
    ...nothings(methods).map(each => `  ${each}`),
    ...remarks(input, methods).map(each => `  ${each}`),
  ];
  return `${head}\n${lines.join("\n")}\n`;
}

const names = (all: readonly string[]): string => someOf(all, mostNames);

function targetText({ to, eachOther, ...reach }: CopyTargets): string {
  const targets = [...(eachOther ? ["each other"] : []), ...(to.length > 0 ? [names(to)] : [])];
  return `${reach.why !== undefined ? "not to" : "to"} ${targets.join(" and ")}: ${methodsText(reach)}`;
}

/** The methods in words. */
function methodsText({ volumes, snapshots, why }: CopyReach): string {
  if (why !== undefined) return why;
  const more = snapshots.filter(method => !volumes.includes(method));
  const own = more.length > 0 ? [`${more.join(", else ")} from snapshots in a repository`] : [];
  return [...(volumes.length > 0 ? [volumes.join(", else ")] : []), ...own].join(", or ");
}

/** Connections between which and others nothing is copied. */
function nothings({ notSources, notTargets }: CopyMethods): readonly string[] {
  const neither = notSources.filter(name => notTargets.includes(name));
  const [gives, takes] = [notSources, notTargets].map(all => all.filter(name => !neither.includes(name)));
  const line = (what: string, all: readonly string[] = []) => (all.length > 0 ? [`${what}: ${names(all)}`] : []);
  return [
    ...line("neither source nor target of copies", neither),
    ...line("not the source of copies", gives),
    ...line("not the target of copies", takes),
  ];
}

/** What the files do not say, or what else must be so. */
function remarks({ connections }: LintInput, { rows, notSources }: CopyMethods): readonly string[] {
  const methods = new Set(rows.flatMap(({ targets }) => targets.flatMap(({ snapshots }) => snapshots)));
  const streams = methods.has("zfs-send") || methods.has("zfs-send-local");
  const named = (line: string, is: (each: ConnectionFile) => boolean | undefined) => {
    const all = connections.filter(is).map(({ name }) => name);
    return all.length > 0 ? [line.replace("…", names(all))] : [];
  };
  return [
    ...(streams ? ["zfs-send, zfs-send-local: zfs send and zfs receive, through csimux or within one machine"] : []),
    ...(methods.has("rsync") ? ["rsync: needs rsync and setpriv, which must be installed where csimux runs"] : []),
    ...(methods.has("restore") ? ["restore: the tool of the repository restores a snapshot"] : []),
    ...(streams ? ["encrypted content is refused where the new volume would not be encrypted"] : []),
    ...(streams
      ? named('  unless it comes from …: "copies.allowPlain"', ({ read }) => read.config?.copies.allowPlain)
      : []),
    ...named('… could with "copies.sshConnection"', each => factsOf(each)?.copySsh && notSources.includes(each.name)),
    ...(rows.length > 0 ? named("only a csimux on their node, with both files, copies …", isLocal) : []),
    ...(rows.length > 0
      ? named("suspended, so they take no new volumes: …", ({ read }) => read.config?.suspended)
      : []),
  ];
}

/** The same for programs; empty for fewer than two connections. */
export function copyData(input: LintInput): readonly CopyMethods[] {
  const methods = methodsOf(input, mostListed);
  return methods ? [methods] : [];
}

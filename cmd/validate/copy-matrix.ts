import { type CopyEnd, methodsBetween, type Obstacle } from "../../lib/copies/methods.ts";
import { groupBy } from "../../lib/core/group-by.ts";
import { type ConnectionSet, type CopySettings, hasConnection } from "../../lib/core/proxy.ts";
import type { CopyMethod } from "../../lib/drivers/copying.ts";
import type { Source } from "../../lib/drivers/driver.ts";

/** How volumes and snapshots get to other connections, the cheapest method first. `because` and `why` are absent unless nothing does. */
export interface CopyReach {
  readonly volumes: readonly CopyMethod[];
  readonly snapshots: readonly CopyMethod[];
  readonly because?: Obstacle;
  readonly why?: string;
}

/** Connections to which content of a row gets in the same manner; `eachOther`: from each source of the row to the others, too. */
export interface CopyTargets extends CopyReach {
  readonly to: readonly string[];
  readonly eachOther: boolean;
}

/** The methods between connections; those with equal methods share a row. */
export interface CopyMethods {
  readonly rows: readonly { readonly from: readonly string[]; readonly targets: readonly CopyTargets[] }[];
  /** Connections that are in no row only because there are too many different ones. */
  readonly omitted: readonly string[];
  readonly notSources: readonly string[];
  readonly notTargets: readonly string[];
}

type Settings = Pick<CopySettings, "enabled">;

/** The methods between connections, in at most `most` rows. Pure, and fast for a thousand connections. */
export function copyMethods(ends: readonly CopyEnd[], settings: Settings, most: number): CopyMethods {
  const groups = alike(ends);
  const having = (end: "copySource" | "copyTarget", has: boolean) =>
    groups.filter(([first]) => (first?.[end] !== undefined) === has);
  const [sources, targets] = [having("copySource", true), having("copyTarget", true)];
  const rows = sources.slice(0, most).map(from => ({ from: namesOf(from), targets: reached(from, targets, settings) }));
  return {
    rows: rows.filter(row => row.targets.length > 0),
    omitted: sources.slice(most).flatMap(namesOf),
    notSources: having("copySource", false).flatMap(namesOf),
    notTargets: having("copyTarget", false).flatMap(namesOf),
  };
}

const namesOf = (ends: readonly CopyEnd[]): readonly string[] => ends.map(({ name }) => name);

/** Groups connections with equal abilities and lists, which are in the same lists of others. */
function alike(ends: readonly CopyEnd[]): readonly (readonly CopyEnd[])[] {
  const sets = new Map<string, ConnectionSet>();
  for (const { copies } of ends)
    for (const set of [copies?.from, copies?.to]) if (set) sets.set(JSON.stringify(set), set);
  const tests = [...sets.values()].map(set => {
    const names = set.kind === "members" ? new Set(set.members) : undefined;
    return ({ name, labels }: CopyEnd) => (names ? names.has(name) : hasConnection(set, name, labels));
  });
  const keyOf = (end: CopyEnd): string => {
    const { copySource, copyTarget, copies } = end;
    const isOn = tests.map(test => (test(end) ? 1 : 0)).join("");
    return JSON.stringify([copySource, copyTarget, copies?.from, copies?.to, isOn]);
  };
  return [...groupBy(ends, keyOf).values()];
}

/** What each of `from` reaches: its own group first, then others, then those that it does not. */
function reached(from: readonly CopyEnd[], targets: readonly (readonly CopyEnd[])[], settings: Settings) {
  const [source] = from;
  const found = targets.flatMap(to => {
    const target = to.find(each => each !== source);
    return source && target ? [{ to, reach: reachOf(source, target, settings) }] : [];
  });
  const groups = [...groupBy(found, ({ reach }) => reach.because ?? JSON.stringify(reach)).values()];
  const all = groups.flatMap((group): readonly CopyTargets[] => {
    const names = group.flatMap(({ to }) => (to === from ? [] : namesOf(to)));
    const [first] = group;
    return first ? [{ to: names, eachOther: group.some(({ to }) => to === from), ...first.reach }] : [];
  });
  const order = ({ eachOther, why }: CopyTargets): number => (why !== undefined ? 2 : eachOther ? 0 : 1);
  return all.sort((a, b) => order(a) - order(b));
}

function reachOf(from: CopyEnd, to: CopyEnd, settings: Settings): CopyReach {
  const of = (kind: Source["kind"]) => methodsBetween(from, to, kind, settings);
  const [volume, snapshot] = [of("volume"), of("snapshot")];
  // What only snapshots can is in `snapshots`; the other way round there is nothing.
  if (snapshot.kind === "refused") return { volumes: [], snapshots: [], because: snapshot.because, why: snapshot.why };
  return { volumes: volume.kind === "methods" ? volume.methods : [], snapshots: snapshot.methods };
}

import { groupBy } from "../core/group-by.ts";
import { type ConnectionSet, type CopySettings, hasConnection } from "../core/proxy.ts";
import type { CopyMethod } from "../drivers/copying.ts";
import type { Source } from "../drivers/driver.ts";
import type { ConnectionRecord } from "../mux/connection.ts";
import { type CopyEnd, methodsBetween, type Obstacle } from "./methods.ts";

/** The methods of volumes and snapshots from one connection to another, the cheapest first, or what forbids them. */
export type MatrixReach =
  | { readonly kind: "methods"; readonly volume: readonly CopyMethod[]; readonly snapshot: readonly CopyMethod[] }
  | { readonly kind: "refused"; readonly because: Obstacle; readonly why: string };

/** Target connections that have the same methods from the sources of a row. */
export interface Targets {
  readonly to: readonly string[];
  /** Whether the sources of the row are also targets, each of the others. */
  readonly isMutual: boolean;
  /** On one machine, where only some of these pairs are; undefined: all pairs have `reach`. */
  readonly onOneMachine: MatrixReach | undefined;
  readonly reach: MatrixReach;
}

/** Connections with the same methods, and what they reach. */
export interface MatrixRow {
  readonly from: readonly string[];
  readonly targets: readonly Targets[];
}

/** The methods between all connections. */
export interface CopyMatrix {
  readonly rows: readonly MatrixRow[];
  /** Connections of further rows, which are not shown because there are too many different ones. */
  readonly left: readonly string[];
  readonly notSources: readonly string[];
  readonly notTargets: readonly string[];
}

/** Connections that differ in name and machine only. */
interface Alike {
  readonly members: readonly CopyEnd[];
  readonly first: CopyEnd;
}

/**
 * The methods between connections, in at most `most` rows; connections with equal methods share a row. Pure. Calls methodsBetween for only one pair
 * of each kind, so that it is fast for a thousand connections.
 */
export function copyMatrix(
  ends: readonly CopyEnd[],
  settings: Pick<CopySettings, "enabled">,
  most: number,
): CopyMatrix {
  const groups = alike(ends);
  const givers = groups.filter(({ first }) => first.copySource);
  const takers = groups.filter(({ first }) => first.copyTarget);
  const rows = givers.slice(0, most).map(source => rowOf(source, takers, settings));
  return {
    rows: rows.filter(({ targets }) => targets.length > 0),
    left: givers.slice(most).flatMap(namesOf),
    notSources: groups.filter(({ first }) => !first.copySource).flatMap(namesOf),
    notTargets: groups.filter(({ first }) => !first.copyTarget).flatMap(namesOf),
  };
}

const namesOf = ({ members }: Alike): readonly string[] => members.map(({ name }) => name);

/** Groups connections with the same methods: equal abilities, equal `from` and `to`, and in the same `from` and `to` of others. */
function alike(ends: readonly CopyEnd[]): readonly Alike[] {
  const sets = new Map<string, ConnectionSet>();
  for (const { copies } of ends)
    for (const set of [copies?.from, copies?.to]) if (set) sets.set(JSON.stringify(set), set);
  const tests = [...sets.values()].map(set => {
    const names = set.kind === "members" ? new Set(set.members) : undefined;
    return ({ name, labels }: CopyEnd) => (names ? names.has(name) : hasConnection(set, name, labels));
  });
  const keyOf = (end: CopyEnd): string => {
    const { copySource, copyTarget, copies } = end;
    const abilities = [
      copySource && { ...copySource, stream: copySource.stream?.format },
      copyTarget && { ...copyTarget, stream: copyTarget.stream?.format },
    ];
    const isOn = tests.map(test => (test(end) ? 1 : 0)).join("");
    return JSON.stringify([abilities, copies?.from, copies?.to, isOn]);
  };
  return [...groupBy(ends, keyOf).values()].flatMap(members => {
    const [first] = members;
    return first ? [{ members, first }] : [];
  });
}

function rowOf(source: Alike, takers: readonly Alike[], settings: Pick<CopySettings, "enabled">): MatrixRow {
  const found = takers.flatMap(target => {
    const { apart, together } = pairsOf(source, target);
    const [onOneMachine, elsewhere] = [together, apart].map(pair => pair && reachOf(...pair, settings));
    const reach = elsewhere ?? onOneMachine;
    if (!reach) return [];
    const differs = elsewhere && onOneMachine && keyOf(elsewhere) !== keyOf(onOneMachine);
    return [{ target, reach, onOneMachine: differs ? onOneMachine : undefined }];
  });
  const groups = groupBy(found, each => [each.reach, each.onOneMachine].map(keyOf).join());
  const targets = [...groups.values()].flatMap(group => {
    const [first] = group;
    const to = group.flatMap(({ target }) => (target === source ? [] : namesOf(target)));
    const isMutual = group.some(({ target }) => target === source);
    return first ? [{ to, isMutual, onOneMachine: first.onOneMachine, reach: first.reach }] : [];
  });
  const order = ({ isMutual, reach }: Targets): number => (reach.kind === "refused" ? 2 : isMutual ? 0 : 1);
  return { from: namesOf(source), targets: targets.sort((a, b) => order(a) - order(b)) };
}

const keyOf = (reach: MatrixReach | undefined): string => {
  if (!reach) return "";
  return reach.kind === "refused" ? reach.because : JSON.stringify([reach.volume, reach.snapshot]);
};

type Pair = readonly [CopyEnd, CopyEnd];

/** A pair on one machine and a pair on two, if they exist. Without streams, machines do not matter. */
function pairsOf(source: Alike, target: Alike) {
  const byMachine = groupBy(target.members, ({ copyTarget }) => copyTarget?.stream?.machine);
  const others = [...byMachine.values()];
  const pair = (candidates: (machine: string | undefined) => readonly (readonly CopyEnd[])[]): Pair | undefined => {
    for (const from of source.members)
      for (const all of candidates(from.copySource?.stream?.machine)) {
        const to = all.find(each => each !== from);
        if (to) return [from, to];
      }
    return undefined;
  };
  const here = (machine: string | undefined) => (machine === undefined ? [] : (byMachine.get(machine) ?? []));
  return {
    together: pair(machine => [here(machine)]),
    apart: pair(machine => others.filter(all => all !== here(machine))),
  };
}

function reachOf(from: CopyEnd, to: CopyEnd, settings: Pick<CopySettings, "enabled">): MatrixReach {
  const of = (kind: Source["kind"]) => methodsBetween(from, to, kind, settings);
  const [volume, snapshot] = [of("volume"), of("snapshot")];
  // What only snapshots can is in `snapshot`; the other way round there is nothing.
  if (snapshot.kind === "refused") return { kind: "refused", because: snapshot.because, why: snapshot.why };
  return { kind: "methods", volume: volume.kind === "methods" ? volume.methods : [], snapshot: snapshot.methods };
}

/** How volumes and snapshots get to other connections, the cheapest method first. `because` and `why` are absent unless nothing does. */
export interface ReachData {
  readonly volumes: readonly CopyMethod[];
  readonly snapshots: readonly CopyMethod[];
  readonly because?: Obstacle;
  readonly why?: string;
}

/** Connections to which content of a row gets in the same manner; `eachOther`: from each source of the row to the others, too. */
export interface TargetsData extends ReachData {
  readonly to: readonly string[];
  readonly eachOther: boolean;
  /** For pairs on one machine; absent if it makes no difference. */
  readonly onOneMachine?: ReachData;
}

/** The methods between connections, as the output for programs has them. */
export interface CopyMethods {
  readonly rows: readonly { readonly from: readonly string[]; readonly targets: readonly TargetsData[] }[];
  /** Connections that are in no row only because there are too many different ones. */
  readonly omitted: readonly string[];
  readonly notSources: readonly string[];
  readonly notTargets: readonly string[];
}

/** A matrix for programs. Pure. */
export const copyMethods = ({ rows, left, notSources, notTargets }: CopyMatrix): CopyMethods => ({
  rows: rows.map(({ from, targets }) => ({
    from,
    targets: targets.map(({ to, isMutual, reach, onOneMachine }) => ({
      ...{ to, eachOther: isMutual, ...reachData(reach) },
      ...(onOneMachine && { onOneMachine: reachData(onOneMachine) }),
    })),
  })),
  ...{ omitted: left, notSources, notTargets },
});

const reachData = (reach: MatrixReach): ReachData =>
  reach.kind === "methods"
    ? { volumes: reach.volume, snapshots: reach.snapshot }
    : { volumes: [], snapshots: [], because: reach.because, why: reach.why };

/** The same without targets that content does not reach; what is possible on one machine only stays, with the reason why. Pure. */
export const onlyPossible = (methods: CopyMethods): CopyMethods => ({
  ...methods,
  rows: methods.rows.flatMap(({ from, targets }) => {
    const possible = targets.filter(({ why, onOneMachine }) => why === undefined || onOneMachine !== undefined);
    return possible.length > 0 ? [{ from, targets: possible }] : [];
  }),
});

/** The connections with a file that was valid at some time, as it was last. Opens none. */
export const knownEnds = (records: readonly ConnectionRecord[]): readonly CopyEnd[] =>
  records.flatMap(({ name, lastValid }) =>
    lastValid ? [{ name, ...lastValid.facts, ...lastValid.facts.abilities }] : [],
  );

import type { Group } from "../core/group.ts";
import { selects } from "../core/selector.ts";
import { placeText } from "../topology/place.ts";
import type { Outage } from "./breaker.ts";
import type { Breakers } from "./breakers.ts";
import type { Connections, Seen } from "./connections.ts";
import type { Health, HealthView } from "./health.ts";
import type { Jobs } from "./jobs.ts";
import type { Figures, Known } from "./known.ts";

/** How a connection's file stands: "degraded" serves its last good version, "bad" nothing. */
export type Standing = "good" | "degraded" | "bad" | "gone";

/** One connection as csimux sees it. */
export interface ConnectionView extends Figures {
  readonly name: string;
  readonly standing: Standing;
  /** Since when it stands so (Date.now()). */
  readonly since: number;
  /** What is wrong with its file; undefined when it is good. */
  readonly problem: string | undefined;
  /** Undefined when no good file was seen since the start. */
  readonly driver: string | undefined;
  readonly suspended: boolean;
  /** The places it is reachable from, without csimux's own prefix; empty: everywhere. */
  readonly places: readonly string[];
  /** Calls that use it now. */
  readonly inUse: number;
  /** Since when its storage is away, and when it is asked again; undefined while calls are made. */
  readonly outage: Outage | undefined;
  readonly health: HealthView;
}

/** One group; members in the order of the group. */
export interface GroupView {
  readonly name: string;
  readonly policy: Group["policy"];
  readonly members: readonly string[];
}

/** Work that goes on whoever waits for it. */
export interface JobView {
  readonly what: string;
  /** When it began (Date.now()). */
  readonly since: number;
}

/** All of csimux's routing at one moment. */
export interface MuxView {
  readonly connections: readonly ConnectionView[];
  readonly groups: readonly GroupView[];
  readonly jobs: readonly JobView[];
}

interface Parts {
  readonly breakers: Breakers;
  readonly connections: Connections;
  readonly jobs: Jobs;
  readonly known: Known;
  readonly health: Health;
}

/** What is known at this moment, sorted by name. Asks no storage and reads no file: it answers at once whatever is dead. */
export function overview(parts: Parts, groups: ReadonlyMap<string, Group>, prefix: string): MuxView {
  const seen = parts.connections.seen();
  return {
    connections: seen.map(each => ({
      ...viewOf(each, prefix),
      ...parts.known.of(each.name),
      outage: parts.breakers.of(each.name),
      health: parts.health.view(each.name),
    })),
    groups: [...groups].map(([name, group]) => ({ name, policy: group.policy, members: membersOf(group, seen) })),
    jobs: parts.jobs.running(),
  };
}

function viewOf(
  { name, state, since, facts, inUse }: Seen,
  prefix: string,
): Omit<ConnectionView, keyof Figures | "outage" | "health"> {
  return {
    name,
    standing: standingOf(state),
    since,
    problem: state.kind === "bad" ? state.error.message : undefined,
    driver: facts?.driverName,
    suspended: facts?.suspended ?? false,
    places: (facts?.places ?? []).map(place => placeText(place.requirements, prefix)),
    inUse,
  };
}

function standingOf(state: Seen["state"]): Standing {
  if (state.kind !== "bad") return state.kind;
  return state.served ? "degraded" : "bad";
}

/** A connection whose file was never good has no labels that a selector could choose. */
const membersOf = ({ from }: Group, seen: readonly Seen[]): readonly string[] =>
  from.kind === "members"
    ? from.members
    : seen.filter(({ facts }) => facts && selects(from.selector, facts.labels)).map(({ name }) => name);

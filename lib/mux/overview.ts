import { type Group, selects } from "../core/proxy.ts";
import { topologyText } from "../topology/accessible-topology.ts";
import type { Outage } from "./breaker.ts";
import type { Breakers } from "./breakers.ts";
import type { ConnectionState, Connections } from "./connections.ts";
import type { HealthMonitor, HealthView } from "./health-monitor.ts";
import type { Jobs } from "./jobs.ts";
import type { KnownFigures, StorageFigures } from "./storage-figures.ts";

/** How a connection's file stands: "degraded" serves its last good version, "bad" nothing. */
export type FileStanding = "good" | "degraded" | "bad" | "gone";

/** One connection as csimux sees it. */
export interface ConnectionView extends KnownFigures {
  readonly name: string;
  readonly standing: FileStanding;
  /** Since when it stands so (Date.now()). */
  readonly since: number;
  /** What is wrong with its file; undefined when it is good. */
  readonly problem: string | undefined;
  /** Undefined when no good file was seen since the start. */
  readonly driver: string | undefined;
  readonly suspended: boolean;
  /** The places it is reachable from, without csimux's own prefix; empty: everywhere. */
  readonly accessibleTopology: readonly string[];
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
export interface RouterView {
  readonly connections: readonly ConnectionView[];
  readonly groups: readonly GroupView[];
  readonly jobs: readonly JobView[];
}

interface OverviewParts {
  readonly breakers: Breakers;
  readonly connections: Connections;
  readonly jobs: Jobs;
  readonly figures: StorageFigures;
  readonly health: HealthMonitor;
}

/** What is known at this moment, sorted by name. Asks no storage and reads no file: it answers at once whatever is dead. */
export function overview(parts: OverviewParts, groups: ReadonlyMap<string, Group>, prefix: string): RouterView {
  const seen = parts.connections.seen();
  return {
    connections: seen.map(each => ({
      ...viewOf(each, prefix),
      ...parts.figures.of(each.name),
      outage: parts.breakers.of(each.name),
      health: parts.health.view(each.name),
    })),
    groups: [...groups].map(([name, group]) => ({ name, policy: group.policy, members: membersOf(group, seen) })),
    jobs: parts.jobs.running(),
  };
}

function viewOf(
  { name, state, since, facts, inUse }: ConnectionState,
  prefix: string,
): Omit<ConnectionView, keyof KnownFigures | "outage" | "health"> {
  return {
    name,
    standing: fileStandingOf(state),
    since,
    problem: state.kind === "bad" ? state.error.message : undefined,
    driver: facts?.driverName,
    suspended: facts?.suspended ?? false,
    accessibleTopology: (facts?.accessibleTopology ?? []).map(place => topologyText(place.requirements, prefix)),
    inUse,
  };
}

function fileStandingOf(state: ConnectionState["state"]): FileStanding {
  if (state.kind !== "bad") return state.kind;
  return state.served ? "degraded" : "bad";
}

/** A connection whose file was never good has no labels that a selector could choose. */
const membersOf = ({ from }: Group, seen: readonly ConnectionState[]): readonly string[] =>
  from.kind === "members"
    ? from.members
    : seen.filter(({ facts }) => facts && selects(from.selector, facts.labels)).map(({ name }) => name);

import type { CopiesView } from "../copies/progress.ts";
import { type Group, selects } from "../core/proxy.ts";
import { topologyText } from "../topology/accessible-topology.ts";
import type { Outage } from "./breaker.ts";
import type { ConnectionRecord, ConnectionState, StorageFigures } from "./connection.ts";
import type { Connections } from "./connections.ts";
import type { HealthMonitor, HealthView } from "./health-monitor.ts";
import type { Jobs } from "./jobs.ts";

/** One connection in a status. */
export interface ConnectionView extends Pick<StorageFigures, "free" | "volumes"> {
  readonly name: string;
  readonly state: ConnectionState;
  /** Since when it has this state (Date.now()). */
  readonly since: number;
  /** What is wrong with its file, and where; undefined if it is valid or gone. */
  readonly problem: string | undefined;
  /** What is wrong with the file that is used, although it is valid. */
  readonly defect?: string | undefined;
  /** Undefined if no valid file was seen since the start. */
  readonly driver: string | undefined;
  readonly suspended: boolean;
  /** The ZFS pool and the host of its volumes; connections with an equal one share their free space. */
  readonly pool?: string | undefined;
  /** The topologies it is reachable from, without csimux's own prefix; empty: everywhere. */
  readonly accessibleTopology: readonly string[];
  /** The number of calls that use it. */
  readonly inUse: number;
  /** Set while its storage system is unreachable. */
  readonly outage: Outage | undefined;
  readonly health: HealthView;
}

/** One group; members in the order of the group. */
export interface GroupView {
  readonly name: string;
  readonly policy: Group["policy"];
  readonly members: readonly string[];
}

/** A running operation, which its callers may have left. */
export interface JobView {
  readonly what: string;
  /** When it began (Date.now()). */
  readonly since: number;
}

/** The state of the whole router. */
export interface RouterView {
  readonly connections: readonly ConnectionView[];
  readonly groups: readonly GroupView[];
  readonly jobs: readonly JobView[];
  /** Absent where nothing is copied between connections. */
  readonly copies?: CopiesView | undefined;
}

interface OverviewParts {
  readonly connections: Connections;
  readonly jobs: Jobs;
  readonly health: HealthMonitor;
  readonly copies: CopiesView | undefined;
}

/** The present state, sorted by name. Sends no request and reads no file, so it never waits. */
export function overview(
  { connections, jobs, health, copies }: OverviewParts,
  groups: ReadonlyMap<string, Group>,
  prefix: string,
): RouterView {
  const seen = connections.seen();
  const view = (record: ConnectionRecord): ConnectionView => {
    const { name, state, since, figures, outage, lastValid, rejected, open } = record;
    const { driverName: driver, suspended = false, accessibleTopology = [], pool } = lastValid?.facts ?? {};
    return {
      ...{ name, state, since, outage, driver, suspended, free: figures.free, volumes: figures.volumes },
      problem: rejected?.error.message,
      defect: rejected ? undefined : lastValid?.facts.defect,
      pool,
      accessibleTopology: accessibleTopology.map(({ requirements }) => topologyText(requirements, prefix)),
      inUse: open?.leases ?? 0,
      health: health.view(record),
    };
  };
  return {
    connections: seen.map(view),
    groups: [...groups].map(([name, group]) => ({ name, policy: group.policy, members: membersOf(group, seen) })),
    jobs: jobs.running(),
    copies,
  };
}

/** A connection without a valid file has no labels that a selector could match. */
const membersOf = ({ from }: Group, seen: readonly ConnectionRecord[]): readonly string[] =>
  from.kind === "members"
    ? from.members
    : seen.flatMap(({ name, lastValid }) =>
        lastValid && selects(from.selector, lastValid.facts.labels) ? [name] : [],
      );

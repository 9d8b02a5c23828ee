import type { CsiError } from "../../lib/core/errors.ts";
import { groupBy } from "../../lib/core/group-by.ts";
import { topologyText } from "../../lib/topology/accessible-topology.ts";
import type { ReachMap } from "../page/map.ts";
import { labelChanges } from "./changes.ts";
import { dataSourcesData } from "./data-sources.ts";
import { reportData } from "./node-answer.ts";
import {
  type ClassReach,
  type ConnectionTopology,
  type EvaluatedNode,
  reaches,
  registered,
  snapshotTopology,
} from "./reach.ts";

/** All results, before they are formatted. */
export interface TopologyView {
  readonly prefix: string;
  /** False if the main file configures no topology. */
  readonly configured: boolean;
  /** Whether the user gave a list of nodes. */
  readonly many: boolean;
  readonly nodes: readonly EvaluatedNode[];
  /** The connections to show; undefined if none were read. */
  readonly connections: readonly ConnectionTopology[] | undefined;
  /** Connections with a file that does not give their topology. */
  readonly broken: ReadonlyMap<string, CsiError>;
  readonly classes: readonly ClassReach[];
  /** Whether `connections` are all there are. */
  readonly whole: boolean;
  /** Whether to print every node and the map. */
  readonly details: boolean;
  readonly warnings: readonly string[];
}

/** Labels that keep a node from registering, and keys that only some nodes report. */
export function warningsOf(nodes: readonly EvaluatedNode[]): readonly string[] {
  const fine = registered(nodes);
  const collisions = fine.flatMap(({ name, labels = {}, report }) =>
    labelChanges(labels, report.segments).flatMap(({ key, from, to }) =>
      to === undefined
        ? []
        : [
            `node ${name} has the label ${key}=${from} but reports ${to}; kubelet refuses this until the label is changed`,
          ],
    ),
  );
  const keys = new Set(fine.flatMap(({ report }) => Object.keys(report.segments)));
  const gaps = fine.flatMap(({ name, report }) => {
    const missing = [...keys].filter(key => !Object.hasOwn(report.segments, key));
    if (missing.length === 0) return [];
    return [`node ${name} does not report ${missing.join(", ")}, which other nodes do; give the rule a default`];
  });
  return [...collisions, ...gaps];
}

/** Who reaches what, for the picture. */
export function mapOf({ connections = [], broken, nodes, prefix }: TopologyView): ReachMap {
  const groups = [...groupBy(registered(nodes), ({ report }) => topologyText(report.segments, prefix))];
  const reachOf = (connection: ConnectionTopology, group: readonly EvaluatedNode[]) => {
    const count = group.filter(node => reaches(node, connection)).length;
    return count === 0 ? "none" : count === group.length ? "all" : "some";
  };
  return {
    places: groups.map(([text, group]) => ({ text, nodes: group.map(({ name }) => name).filter(name => name !== "") })),
    rows: [
      ...connections.map(each => {
        const reach = groups.map(([, group]) => reachOf(each, group));
        const isLost = reach.every(kind => kind === "none");
        const tone = isLost ? ("bad" as const) : each.suspended ? ("warning" as const) : ("good" as const);
        return { name: each.name, tone, note: isLost ? "no node" : each.suspended ? "suspended" : "", reach };
      }),
      ...[...broken.keys()].map(name => ({
        ...{ name, tone: "bad" as const, note: "its file is wrong" },
        reach: groups.map(() => "unknown" as const),
      })),
    ],
  };
}

/** The form for programs. A single node has the members of its report. */
export function viewData({ many, nodes, connections, classes, warnings, prefix }: TopologyView): object {
  const own = many
    ? { nodes: nodes.map(({ name, report }) => ({ name, ...reportData(report) })) }
    : nodes[0] && reportData(nodes[0].report);
  return {
    ...own,
    ...(connections && {
      connections: connections.map(connection => ({
        name: connection.name,
        nodes: nodes.filter(node => reaches(node, connection)).map(({ name }) => name),
        snapshots: { accessibleTopology: snapshotTopology(connection, nodes, prefix) },
      })),
    }),
    ...(classes.length > 0 && {
      classes: classes.map(({ name, connection, nodes: usableOn, reasons, dataSources }) => ({
        ...{ name, connection, usableOn, reasons },
        ...(dataSources && { dataSources: dataSourcesData(dataSources) }),
      })),
    }),
    ...(many && { warnings }),
  };
}

import type { CsiError } from "../../lib/core/errors.ts";
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
    Object.entries(report.segments).flatMap(([key, to]) => {
      const from = labels[key];
      if (from === undefined || from === to) return [];
      return [`node ${name} has the label ${key}=${from} but reports ${to}; kubelet refuses this until it is changed`];
    }),
  );
  const keys = new Set(fine.flatMap(({ report }) => Object.keys(report.segments)));
  const gaps = fine.flatMap(({ name, report }) => {
    const missing = [...keys].filter(key => !Object.hasOwn(report.segments, key));
    if (missing.length === 0) return [];
    return [`node ${name} does not report ${missing.join(", ")}, which other nodes do; give the rule a default`];
  });
  return [...collisions, ...gaps];
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
      classes: classes.map(({ name, connection, nodes: usableOn, reasons }) => ({
        name,
        connection,
        usableOn,
        reasons,
      })),
    }),
    ...(many && { warnings }),
  };
}

import type { Segments } from "../../lib/core/access.ts";
import type { CsiError } from "../../lib/core/errors.ts";
import { segmentsOf } from "../../lib/topology/accessible-topology.ts";
import {
  canUse,
  type FlagSetting,
  labelChanges,
  type PlacementAnswer,
  type Scenario,
} from "../../lib/topology/reach.ts";
import type { ClusterNode } from "../../lib/topology/sidecar.ts";
import type { ClassView } from "./classes.ts";
import { placesAt, type ReachedConnection } from "./connections.ts";
import { codeName, type NodeReport, reportData } from "./report.ts";

/** A node that was evaluated. */
export interface ViewedNode {
  readonly name: string;
  readonly report: NodeReport;
  /** All its labels, where they are known. */
  readonly labels: Segments | undefined;
}

/** Everything that was found out, before it is put into words. */
export interface TopologyView {
  readonly prefix: string;
  /** False when the main file configures no topology. */
  readonly configured: boolean;
  /** Whether the user gave a list of nodes. */
  readonly many: boolean;
  readonly nodes: readonly ViewedNode[];
  /** Connections to be shown; undefined when nobody asked for them. */
  readonly targets: readonly ReachedConnection[] | undefined;
  /** Connections whose file does not say where they are. */
  readonly broken: ReadonlyMap<string, CsiError>;
  /** Of one connection that was asked about. */
  readonly modes: readonly FlagSetting[];
  readonly classes: readonly ClassView[];
  /** Whether `targets` are all there are. */
  readonly whole: boolean;
  /** Whether everything is printed, not only what follows from it. */
  readonly details: boolean;
  readonly warnings: readonly string[];
}

/** Whether pods on a node can use a connection's volumes; false for a node that cannot register. */
export const reachable = (target: ReachedConnection, { report, labels }: ViewedNode, prefix: string): boolean =>
  report.failure === undefined &&
  canUse(placesAt(target, [{ labels: report.segments }], prefix), report.segments, labels);

/**
 * Where volumes made from a snapshot on this connection will be usable (CSI Snapshot.accessible_topology): where the connection is,
 * and on a node's own disks, on the node of the volume. Empty: everywhere.
 */
export const snapshotPlaces = (
  target: ReachedConnection,
  nodes: readonly ViewedNode[],
  prefix: string,
): readonly Segments[] => {
  const fine = nodes.filter(({ report }) => !report.failure);
  const places = placesAt(
    target,
    fine.map(({ report }) => ({ labels: report.segments })),
    prefix,
  );
  return places.map(segmentsOf);
};

/** The node as external-provisioner will know it once it has registered. */
export const registered = ({ name, report, labels }: ViewedNode): ClusterNode => ({
  name,
  keys: Object.keys(report.segments),
  labels: { ...labels, ...report.segments },
});

/** Labels that are on a node already with another value: kubelet refuses to register it until they change. */
const collisions = ({ report, labels }: ViewedNode) => {
  const kept = Object.entries(labels ?? {}).filter(([key]) => Object.hasOwn(report.segments, key));
  return labelChanges(Object.fromEntries(kept), report.segments);
};

/** What is wrong with the nodes taken together. */
export function clusterWarnings(nodes: readonly ViewedNode[]): readonly string[] {
  const fine = nodes.filter(({ report }) => !report.failure);
  const warnings = fine.flatMap(node =>
    collisions(node).map(
      ({ key, from, to }) =>
        `node ${node.name} has the label ${key}=${from} but reports ${to}; kubelet refuses this until the label is changed`,
    ),
  );
  const all = new Set(fine.flatMap(({ report }) => Object.keys(report.segments)));
  for (const { name, report } of fine) {
    const missing = [...all].filter(key => !Object.hasOwn(report.segments, key));
    if (missing.length > 0)
      warnings.push(`node ${name} does not report ${missing.join(", ")}, which others do; give the rule a default`);
  }
  return warnings;
}

/** The form for programs. Of a single node the members are those of its report. */
export function viewData(view: TopologyView): Readonly<Record<string, unknown>> {
  const { many, nodes, targets, modes, classes, warnings, prefix } = view;
  const connections = targets?.map(target => ({
    name: target.name,
    nodes: nodes.filter(node => reachable(target, node, prefix)).map(({ name }) => name),
    snapshots: { accessibleTopology: snapshotPlaces(target, nodes, prefix) },
  }));
  const own = many
    ? { nodes: nodes.map(({ name, report }) => ({ name, ...reportData(report) })) }
    : nodes[0] && reportData(nodes[0].report);
  return {
    ...own,
    ...(connections && { connections }),
    ...(modes.length > 0 && { modes: modes.map(modeData) }),
    ...(classes.length > 0 && { classes: classes.map(classData) }),
    ...(many && { warnings }),
  };
}

const classData = ({ name, connection, nodes, reasons, modes }: ClassView) => ({
  name,
  connection,
  usableOn: nodes,
  reasons,
  modes: modes.map(modeData),
});

const modeData = ({ binding, strict, immediate, scenarios: courses }: FlagSetting) => ({
  volumeBindingMode: binding,
  strictTopology: strict,
  immediateTopology: immediate,
  courses: courses.map(courseData),
});

function courseData({ nodes, request, answer, elsewhere }: Scenario) {
  const selected = nodes.length > 0 ? { nodes } : {};
  if ("refusal" in request) return { ...selected, notSent: request.refusal };
  const { requisite = null, preferred = null } = request.demand ?? {};
  const usable = nodes.length > 0 && answer && "candidates" in answer ? { usableOnNodes: !elsewhere } : {};
  return { ...selected, requisite, preferred, ...(answer && answerData(answer)), ...usable };
}

const answerData = (answer: PlacementAnswer) =>
  "error" in answer
    ? { error: { code: codeName(answer.error), message: answer.error.message } }
    : {
        volume: answer.candidates.map(({ connection, accessibleTopology: places }) => ({
          connection,
          accessibleTopology: places,
        })),
      };

import type { StorageClass } from "../../lib/config/cluster.ts";
import { accessibleTopologyOf, readPlacement } from "../../lib/config/placement.ts";
import type { ProxyConfig } from "../../lib/config/proxy.ts";
import type { Segments } from "../../lib/core/access.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { selects } from "../../lib/core/proxy.ts";
import { modules } from "../../lib/drivers/index.ts";
import { ConnectionFolder } from "../../lib/io/folder.ts";
import { nearest } from "../../lib/schema/nearest.ts";
import { type AccessibleTopology, segmentsOf, topologyText } from "../../lib/topology/accessible-topology.ts";
import type { NodeAnswer } from "./node-answer.ts";

/** The topology of one connection. */
export interface ConnectionTopology {
  readonly name: string;
  /** Alternatives; empty: reachable from everywhere. "own": volumes exist on the node that made them. */
  readonly accessibleTopology: readonly AccessibleTopology[] | "own";
  readonly suspended: boolean;
  readonly labels: Readonly<Record<string, string>>;
}

/** The connections of a folder; `broken`: those with a file that does not give their topology, by name. */
export interface FolderConnections {
  readonly all: readonly ConnectionTopology[];
  readonly broken: ReadonlyMap<string, CsiError>;
}

/** Reads the topology of all connections of a folder. Throws "unavailable" if the folder cannot be read. */
export async function readConnections(folder: string, config: ProxyConfig): Promise<FolderConnections> {
  const source = new ConnectionFolder(folder);
  const all: ConnectionTopology[] = [];
  const broken = new Map<string, CsiError>();
  for (const name of await source.names()) {
    try {
      all.push(topologyOf(name, (await source.read(name)) ?? "", config));
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      broken.set(name, error);
    }
  }
  return { all, broken };
}

function topologyOf(name: string, text: string, { defaults, nodeTopology }: ProxyConfig): ConnectionTopology {
  const common = readPlacement(`${name}.yaml`, text, defaults);
  const isLocal = modules.some(({ names, facts }) => facts.local && names.includes(common.driver));
  const own = isLocal && nodeTopology?.kind === "node";
  const accessibleTopology = accessibleTopologyOf(common, defaults.prefix) ?? (own ? "own" : []);
  return { name, accessibleTopology, suspended: common.suspended, labels: common.labels };
}

/** The members of a group, or the connection of that name. Throws a CsiError if there is neither, or a file is wrong. */
export function connectionsNamed(
  name: string,
  { all, broken }: FolderConnections,
  { groups }: ProxyConfig,
): readonly ConnectionTopology[] {
  const find = (wanted: string, otherwise: () => CsiError): ConnectionTopology => {
    const found = all.find(each => each.name === wanted);
    if (found) return found;
    throw broken.get(wanted) ?? otherwise();
  };
  const from = groups.get(name)?.from;
  if (from?.kind === "selector") return all.filter(({ labels }) => selects(from.selector, labels));
  if (from)
    return from.members.map(member =>
      find(member, () => new CsiError("failed-precondition", `member "${member}" of group "${name}" has no file`)),
    );
  return [
    find(name, () => {
      const near = nearest(name, [...all.map(each => each.name), ...groups.keys()]);
      const hint = near === undefined ? "" : `; did you mean "${near}"?`;
      return new CsiError("invalid-argument", `there is no connection or group "${name}"${hint}`);
    }),
  ];
}

/** A node with what it would report. */
export interface EvaluatedNode {
  readonly name: string;
  readonly report: NodeAnswer;
  /** All its labels; undefined if unknown. */
  readonly labels: Segments | undefined;
}

/** The nodes that can register. */
export const registered = (nodes: readonly EvaluatedNode[]): readonly EvaluatedNode[] =>
  nodes.filter(({ report }) => report.failure === undefined);

/**
 * Whether pods on a node can use a connection's volumes: the node must carry every label of one of the alternatives, because each
 * becomes an expression of the PersistentVolume's node affinity. Labels other than the reported ones count only if they are known.
 */
export function reaches({ report, labels }: EvaluatedNode, { accessibleTopology: all }: ConnectionTopology): boolean {
  const { segments, failure } = report;
  if (failure) return false;
  return (
    all === "own" ||
    all.length === 0 ||
    all.some(
      ({ requirements, extra }) =>
        isSubset(requirements, segments) && (labels === undefined || isSubset(extra, labels)),
    )
  );
}

const isSubset = (labels: Segments, of: Segments): boolean =>
  Object.entries(labels).every(([key, value]) => of[key] === value);

/**
 * The topology of volumes made from a snapshot of this connection (CSI Snapshot.accessible_topology): that of the connection; on disks of
 * nodes, that of the node. Empty: everywhere.
 */
export const snapshotTopology = (
  { accessibleTopology }: ConnectionTopology,
  nodes: readonly EvaluatedNode[],
  prefix: string,
): readonly Segments[] =>
  accessibleTopology === "own"
    ? registered(nodes).map(({ report }) => ({ [`${prefix}/node`]: report.segments[`${prefix}/node`] ?? "" }))
    : accessibleTopology.map(segmentsOf);

/** Which nodes can use the volumes of a class. */
export interface ClassReach {
  readonly name: string;
  readonly connection: string;
  readonly nodes: readonly string[];
  /** Why the other nodes cannot, each reason once. */
  readonly reasons: readonly string[];
}

/** Evaluates a class on every node. If its connection cannot be used, no node can use the class. */
export function classReach(
  { name, connection, allowed }: StorageClass,
  nodes: readonly EvaluatedNode[],
  connections: FolderConnections,
  config: ProxyConfig,
): ClassReach {
  const reasons = new Set<string>();
  const usable: string[] = [];
  try {
    const members = connectionsNamed(connection, connections, config);
    for (const node of registered(nodes)) {
      const reason = refusal(node, allowed, members, config);
      if (reason === undefined) usable.push(node.name);
      else reasons.add(reason);
    }
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    reasons.add(error.message);
  }
  return { name, connection, nodes: usable, reasons: [...reasons] };
}

function refusal(
  node: EvaluatedNode,
  allowed: StorageClass["allowed"],
  members: readonly ConnectionTopology[],
  { nodeTopology, defaults }: ProxyConfig,
): string | undefined {
  const { segments } = node.report;
  const isAllowed = allowed.some(each => each.every(({ key, values }) => values.includes(segments[key] ?? "")));
  if (allowed.length > 0 && !isAllowed) return "allowedTopologies of the class excludes the node";
  if (members.length === 0) return "the group has no members";
  const refusals = members.map(member => {
    if (member.suspended) return `connection "${member.name}" is suspended`;
    // Without topology, Kubernetes gives volumes no node affinity.
    if (!nodeTopology || reaches(node, member)) return undefined;
    return `connection "${member.name}" is reachable only from ${topologyWords(member, defaults.prefix)}`;
  });
  return refusals.includes(undefined) ? undefined : refusals.join("; ");
}

const mostTopologies = 6;

/** The topologies from which a connection is reachable, in words; empty: everywhere. */
export function topologyWords({ accessibleTopology: all }: ConnectionTopology, prefix: string): string {
  if (all === "own") return "the node that made the volume";
  const shown = all.slice(0, mostTopologies).map(each => topologyText(segmentsOf(each), prefix));
  return [...shown, ...(all.length > mostTopologies ? [`${all.length - mostTopologies} more`] : [])].join(" or ");
}

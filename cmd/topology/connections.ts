import { accessibleTopologyOf, readPlacement } from "../../lib/config/placement.ts";
import type { ProxyConfig } from "../../lib/config/proxy.ts";
import { CsiError, jointCode } from "../../lib/core/errors.ts";
import { selects } from "../../lib/core/proxy.ts";
import { modules } from "../../lib/drivers/index.ts";
import { ConnectionFolder } from "../../lib/io/folder.ts";
import { evaluatePlacement } from "../../lib/mux/placement.ts";
import { nearest } from "../../lib/schema/nearest.ts";
import type {
  AccessibilityRequirements,
  AccessibleTopology,
  PlacementPolicy,
} from "../../lib/topology/accessible-topology.ts";
import type { PlacementAnswer, TopologyCandidate } from "../../lib/topology/reach.ts";
import { type ClusterNode, isSubset } from "../../lib/topology/sidecar.ts";

/** A connection as topology sees it. */
export interface ReachedConnection {
  readonly name: string;
  /** Empty: reachable from everywhere. "own": volumes exist on the node that made them. */
  readonly accessibleTopology: readonly AccessibleTopology[] | "own";
  readonly suspended: boolean;
  readonly labels: Readonly<Record<string, string>>;
}

/** The connections of a folder; `broken` are those whose file does not say where they are. */
export interface ReachedConnections {
  readonly all: readonly ReachedConnection[];
  readonly broken: ReadonlyMap<string, CsiError>;
}

/** Reads where all connections of a folder are. Throws "unavailable" when the folder cannot be read. */
export async function readTargets(folder: string, config: ProxyConfig): Promise<ReachedConnections> {
  const files = new ConnectionFolder(folder);
  const all: ReachedConnection[] = [];
  const broken = new Map<string, CsiError>();
  for (const name of await files.names()) {
    try {
      all.push(target(name, (await files.read(name)) ?? "", config));
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      broken.set(name, error);
    }
  }
  return { all, broken };
}

function target(name: string, text: string, { defaults, nodeTopology }: ProxyConfig): ReachedConnection {
  const common = readPlacement(`${name}.yaml`, text, defaults);
  const own = isLocal(common.driver) && nodeTopology?.kind === "node";
  const places = accessibleTopologyOf(common, defaults.prefix) ?? (own ? "own" : []);
  return { name, accessibleTopology: places, suspended: common.suspended, labels: common.labels };
}

const isLocal = (driver: string): boolean => modules.some(({ names, facts }) => facts.local && names.includes(driver));

/** The connections that a name stands for: the members of a group, or one. Throws "invalid-argument" when it is neither. */
export function targetsNamed(
  name: string,
  { all, broken }: ReachedConnections,
  { groups }: ProxyConfig,
): readonly ReachedConnection[] {
  const group = groups.get(name);
  if (!group) {
    const direct = all.filter(each => each.name === name);
    if (direct.length > 0) return direct;
    const error = broken.get(name);
    if (error) throw error;
    const near = nearest(name, [...all.map(each => each.name), ...groups.keys()]);
    const hint = near === undefined ? "" : `; did you mean "${near}"?`;
    throw new CsiError("invalid-argument", `there is no connection or group "${name}"${hint}`);
  }
  const { from } = group;
  if (from.kind === "selector") return all.filter(({ labels }) => selects(from.selector, labels));
  return from.members.map(member => {
    const found = all.find(each => each.name === member);
    if (found) return found;
    throw (
      broken.get(member) ?? new CsiError("failed-precondition", `member "${member}" of group "${name}" has no file`)
    );
  });
}

/** The places of a connection as the given node sees them: storage of the node itself is there alone. */
export function placesAt(
  { accessibleTopology: places }: ReachedConnection,
  nodes: readonly Pick<ClusterNode, "labels">[],
  prefix: string,
) {
  if (places !== "own") return places;
  const key = `${prefix}/node`;
  return nodes.map(({ labels }): AccessibleTopology => ({ requirements: { [key]: labels[key] ?? "" }, extra: {} }));
}

/** What csimux would answer to a CreateVolume call that names these connections; the fill level is not known here. */
export function answering(
  targets: readonly ReachedConnection[],
  nodes: readonly ClusterNode[],
  policy: PlacementPolicy,
) {
  return (
    demand: AccessibilityRequirements = { requisite: [], preferred: [] },
    selected: ClusterNode | undefined,
  ): PlacementAnswer => {
    const refusals: CsiError[] = [];
    const accepted: (TopologyCandidate & { readonly preference: number })[] = [];
    for (const each of targets) {
      const places = placesAt(each, ownNode(demand, selected, nodes), policy.prefix);
      const { name, suspended } = each;
      const verdict = evaluatePlacement(
        { name, accessibleTopology: places, suspended },
        { accessibility: demand, capabilities: [] },
        policy,
      );
      if (verdict instanceof CsiError) refusals.push(verdict);
      else accepted.push({ connection: name, ...verdict });
    }
    if (accepted.length === 0) return { error: refusal(refusals) };
    const ordered = accepted.sort((a, b) => a.preference - b.preference);
    return {
      candidates: ordered.map(({ connection, accessibleTopology: places }) => ({
        connection,
        accessibleTopology: places,
      })),
    };
  };
}

/** The node whose controller makes a volume on its own disk: where no pod waits any may; the most preferred one stands for all. */
function ownNode(
  { preferred: [first] }: AccessibilityRequirements,
  selected: ClusterNode | undefined,
  nodes: readonly ClusterNode[],
) {
  const own = selected ?? nodes.find(({ labels }) => first && isSubset(first, labels)) ?? nodes[0];
  return own ? [own] : [];
}

/** The answer when none of the connections takes the volume. */
function refusal(refusals: readonly CsiError[]): CsiError {
  const [first] = refusals;
  if (!first) return new CsiError("failed-precondition", "the group has no members");
  if (refusals.length === 1) return first;
  return new CsiError(
    jointCode(refusals),
    `no member of the group can take the volume: ${refusals.map(each => each.message).join("; ")}`,
  );
}

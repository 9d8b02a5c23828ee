import type { Segments } from "../core/access.ts";
import type { CsiError } from "../core/errors.ts";
import { groupBy } from "../core/group-by.ts";
import type { AccessibilityRequirements, AccessibleTopology } from "./accessible-topology.ts";
import {
  type AllowedTerm,
  type ClusterNode,
  isSubset,
  type SidecarFlags,
  type SidecarRequest,
  sidecarRequest,
} from "./sidecar.ts";

/**
 * Whether pods on a node can use volumes of a connection: the node must carry every label of one of its places, because
 * each becomes an expression of the PersistentVolume's node affinity. Labels beside the segments count where they are known.
 */
export function canUse(
  places: readonly AccessibleTopology[],
  segments: Segments,
  labels: Segments | undefined,
): boolean {
  return (
    places.length === 0 ||
    places.some(
      ({ requirements, extra }) =>
        isSubset(requirements, segments) && (labels === undefined || isSubset(extra, labels)),
    )
  );
}

/** What a StorageClass says about topology. */
export interface ClassTopology {
  readonly binding: "Immediate" | "WaitForFirstConsumer";
  readonly allowed: readonly AllowedTerm[];
}

/** A connection that would take a volume, and the places that the volume would report. */
export interface TopologyCandidate {
  readonly connection: string;
  readonly accessibleTopology: readonly Segments[];
}

/** What csimux answers to a CreateVolume call. Of several candidates (members of a group) the first preferred ones come first. */
export type PlacementAnswer = { readonly candidates: readonly TopologyCandidate[] } | { readonly error: CsiError };

/** One possible course of a claim. */
export interface Scenario {
  /** Nodes that the scheduler may have chosen and that lead to the same request; empty under Immediate binding. */
  readonly nodes: readonly string[];
  readonly request: SidecarRequest;
  /** Undefined when external-provisioner does not call. */
  readonly answer: PlacementAnswer | undefined;
  /** The volume can be made, but not be used on the chosen nodes: the pod moves to another node or stays pending. */
  readonly elsewhere: boolean;
}

/** One setting of external-provisioner's flags under one binding mode. */
export interface FlagSetting extends SidecarFlags {
  readonly binding: ClassTopology["binding"];
  readonly scenarios: readonly Scenario[];
}

/** Of a cluster with more different places only so many are followed: each course names all of them. */
export const mostCourses = 50;

/** A name of a claim without ordinal; it decides only where the preferred terms of an immediate claim begin. */
const claimName = "claim";

const flags: readonly SidecarFlags[] = [true, false].flatMap(strict => [
  { strict, immediate: true },
  { strict, immediate: false },
]);

/**
 * What becomes of a claim of this class under each of the four settings of `--strict-topology` and `--immediate-topology`.
 * `answer` gets the requirements (none: undefined) and one of the nodes that the scheduler may have chosen.
 */
export function modes(
  nodes: readonly ClusterNode[],
  { binding, allowed }: ClassTopology,
  answer: (demand: AccessibilityRequirements | undefined, selected: ClusterNode | undefined) => PlacementAnswer,
): readonly FlagSetting[] {
  const course = (setting: SidecarFlags, group: readonly ClusterNode[]): Scenario => {
    const [selected] = group;
    const request = sidecarRequest(nodes, setting, { name: claimName, allowed, selected });
    const answered = "refusal" in request ? undefined : answer(request.demand, selected);
    const elsewhere = selected !== undefined && answered !== undefined && !isUsable(answered, selected);
    return { nodes: group.map(({ name }) => name), request, answer: answered, elsewhere };
  };
  const groups = binding === "Immediate" ? [[]] : groupByTopology(nodes).slice(0, mostCourses);
  return flags.map(setting => ({ ...setting, binding, scenarios: groups.map(group => course(setting, group)) }));
}

/** On which nodes a class's volumes can be used, and why not on the others. */
export interface Usability {
  readonly nodes: readonly string[];
  /** Why not elsewhere, each reason once; empty where all nodes can. */
  readonly reasons: readonly string[];
}

/** The setting in which nothing is promised that cannot be kept: the request names the place of the chosen node alone. */
const strictest: SidecarFlags = { strict: true, immediate: true };

/**
 * Where claims of a class end well. Under WaitForFirstConsumer a node counts when a volume for its pod is made and can be used there;
 * under Immediate binding, when it can use the volume that is made before any pod. `answer` as for `modes`.
 */
export function usability(
  nodes: readonly ClusterNode[],
  { binding, allowed }: ClassTopology,
  answer: (demand: AccessibilityRequirements | undefined, selected: ClusterNode | undefined) => PlacementAnswer,
): Usability {
  const reasons = new Set<string>();
  const usable: string[] = [];
  for (const group of binding === "Immediate" ? [nodes] : groupByTopology(nodes)) {
    const selected = binding === "Immediate" ? undefined : group[0];
    const request = sidecarRequest(nodes, strictest, { name: claimName, allowed, selected });
    const answered = "refusal" in request ? undefined : answer(request.demand, selected);
    if (answered && "candidates" in answered) {
      const can = group.filter(node => isUsable(answered, node));
      usable.push(...can.map(({ name }) => name));
      if (can.length < group.length) reasons.add("volumes are made, but not where these nodes can use them");
    } else reasons.add("refusal" in request ? request.refusal : (answered?.error.message ?? "nothing is sent"));
  }
  return { nodes: usable, reasons: [...reasons] };
}

/**
 * Whether the volume that is made first of all can be used on a node; true where none is made. Labels beside the
 * registered ones may not be known, so only keys with the registered prefix count as missing.
 */
function isUsable(answer: PlacementAnswer, { keys, labels }: ClusterNode): boolean {
  const own = keys[0]?.replace(/[^/]*$/, "");
  const places = "candidates" in answer ? (answer.candidates[0]?.accessibleTopology ?? []) : [];
  const known = (place: Segments): Segments =>
    Object.fromEntries(
      Object.entries(place).filter(([key]) => Object.hasOwn(labels, key) || (own !== undefined && key.startsWith(own))),
    );
  return places.length === 0 || places.some(place => isSubset(known(place), labels));
}

/** Nodes with the same topology, together, in the order of their first. */
export function groupByTopology(nodes: readonly ClusterNode[]): readonly (readonly ClusterNode[])[] {
  const places = groupBy(nodes, ({ keys, labels }) => JSON.stringify([...keys].sort().map(key => [key, labels[key]])));
  return [...places.values()];
}

/** A node label that stands in the way of what the node is to report from now on. */
export interface LabelChange {
  readonly key: string;
  readonly from: string;
  /** Undefined when the key is not reported any more. */
  readonly to: string | undefined;
}

/**
 * How the labels of a node must change before it can register with other segments: kubelet writes each segment as a label
 * once and refuses a node that reports another value for it. A new key needs nothing.
 */
export function labelChanges(before: Segments, after: Segments): readonly LabelChange[] {
  return Object.entries(before)
    .filter(([key, from]) => after[key] !== from)
    .map(([key, from]) => ({ key, from, to: after[key] }));
}

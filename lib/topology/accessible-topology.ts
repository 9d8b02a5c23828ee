import type { Segments } from "../core/access.ts";
import { CsiError } from "../core/errors.ts";

/** One topology from which a connection is reachable; all keys have their full prefix. */
export interface AccessibleTopology {
  /** Keys with csimux's own prefix, which nodes report. */
  readonly requirements: Segments;
  /** Further labels of a volume; a request may name them, too. */
  readonly extra: Segments;
}

/** Where a new volume may be used (CSI TopologyRequirement). Empty lists are the same as absent ones. */
export interface AccessibilityRequirements {
  readonly requisite: readonly Segments[];
  readonly preferred: readonly Segments[];
}

/** The settings of the main file about the placement of volumes. */
export interface PlacementPolicy {
  /** Prefix of csimux's own topology keys, without the slash. */
  readonly prefix: string;
  /** strict: a term must name every required key. */
  readonly match: "lenient" | "strict";
  /** The topologies that a new volume reports: all of its connection, or those that match a requisite term. */
  readonly report: "all" | "requisite";
  /** first: refuse a volume if the most preferred term does not match, so that the scheduler tries another node. */
  readonly honourPreferred: "off" | "first";
}

/** Labels as one word, sorted, without the prefix (given without "/"). */
export function topologyText(labels: Segments, prefix = ""): string {
  const short = (key: string) => (prefix !== "" && key.startsWith(`${prefix}/`) ? key.slice(prefix.length + 1) : key);
  return Object.entries(labels)
    .map(([key, value]) => `${short(key)}=${value}`)
    .sort()
    .join(",");
}

/** All labels of a topology, as a volume reports them. */
export const segmentsOf = (topology: AccessibleTopology): Segments => ({ ...topology.requirements, ...topology.extra });

/**
 * The topologies from which a new volume of a connection will be reachable. One requisite term that matches one topology is enough (CSI
 * CreateVolume). Throws "resource-exhausted" if none matches, the only code on which Kubernetes tries another node, and
 * "invalid-argument" if no term names a key that the connection could know.
 */
export function accessibleTopologyFor(
  topologies: readonly AccessibleTopology[],
  wanted: AccessibilityRequirements,
  policy: PlacementPolicy,
): readonly Segments[] {
  const { requisite, preferred } = wanted;
  const [first] = preferred;
  if (topologies.length === 0) return [];
  if (
    first &&
    policy.honourPreferred === "first" &&
    usable(topologies, first, policy) &&
    !fitsTerm(topologies, first, policy)
  ) {
    throw refusal(topologies, [first], "the preferred topology is");
  }
  if (requisite.length === 0) return topologies.map(segmentsOf);
  const terms = requisite.filter(term => usable(topologies, term, policy));
  if (terms.length === 0) {
    const text = `no requested topology names a key with the prefix "${policy.prefix}/": ${alternatives(requisite)}`;
    throw new CsiError("invalid-argument", text);
  }
  const fitting = topologies.filter(each => terms.some(term => fits(each, term, policy)));
  if (fitting.length === 0) throw refusal(topologies, terms, "the request allows only");
  return (policy.report === "requisite" ? fitting : topologies).map(segmentsOf);
}

/** Whether a term matches one of the topologies. A connection without any is reachable from everywhere. */
export const fitsTerm = (topologies: readonly AccessibleTopology[], term: Segments, policy: PlacementPolicy): boolean =>
  topologies.length === 0 || (usable(topologies, term, policy) && topologies.some(each => fits(each, term, policy)));

/** The index of the first preferred term that matches; their number if none does. */
export function preferenceOf(
  topologies: readonly AccessibleTopology[],
  { preferred }: AccessibilityRequirements,
  policy: PlacementPolicy,
): number {
  const index = preferred.findIndex(term => fitsTerm(topologies, term, policy));
  return index < 0 ? preferred.length : index;
}

/** Whether a volume could be made for nodes of this segment; an empty one means anywhere. For GetCapacity. */
export const isReachableFrom = (
  topologies: readonly AccessibleTopology[],
  segment: Segments,
  policy: PlacementPolicy,
): boolean => Object.keys(segment).length === 0 || fitsTerm(topologies, segment, policy);

/** Whether a term concerns the connection: it has a key with our prefix, or an extra label of one of the topologies. */
const usable = (topologies: readonly AccessibleTopology[], term: Segments, { prefix }: PlacementPolicy): boolean =>
  Object.keys(term).some(
    key => key.startsWith(`${prefix}/`) || topologies.some(({ extra }) => Object.hasOwn(extra, key)),
  );

const fits = (each: AccessibleTopology, term: Segments, { match }: PlacementPolicy): boolean =>
  agree(segmentsOf(each), term) &&
  (match === "lenient" || Object.keys(each.requirements).every(key => Object.hasOwn(term, key)));

const agree = (labels: Segments, term: Segments): boolean =>
  Object.entries(term).every(([key, value]) => !Object.hasOwn(labels, key) || labels[key] === value);

const shown = (segments: Segments): string => topologyText(segments);
const alternatives = (all: readonly Segments[]): string => all.map(shown).join(" or ");

const refusal = (topologies: readonly AccessibleTopology[], terms: readonly Segments[], what: string): CsiError =>
  new CsiError(
    "resource-exhausted",
    `the storage is reachable from ${alternatives(topologies.map(segmentsOf))}, but ${what} ${alternatives(terms)}`,
  );

import type { Segments } from "../core/access.ts";
import { CsiError } from "../core/errors.ts";

/** One place that a connection is reachable from; all keys carry their full prefix. */
export interface AccessibleTopology {
  /** Under csimux's own prefix; what nodes report. */
  readonly requirements: Segments;
  /** Further labels that a volume carries; a request may name them too. */
  readonly extra: Segments;
}

/** Where a new volume may be used (CSI TopologyRequirement). Empty lists are the same as absent ones. */
export interface AccessibilityRequirements {
  readonly requisite: readonly Segments[];
  readonly preferred: readonly Segments[];
}

/** What the main file says about where volumes may be made. */
export interface PlacementPolicy {
  /** Prefix of csimux's own topology keys, without the slash. */
  readonly prefix: string;
  /** strict: a term must name every key that the place requires. */
  readonly match: "lenient" | "strict";
  /** Which places a new volume reports: all of its connection, or those that fit a requisite term. */
  readonly report: "all" | "requisite";
  /** first: refuse when the most preferred term does not fit, so that the scheduler looks elsewhere. */
  readonly honourPreferred: "off" | "first";
}

/** Labels as one word, in one order whatever theirs is; those with the prefix (without "/") lose it. */
export function topologyText(labels: Segments, prefix = ""): string {
  const short = (key: string) => (prefix !== "" && key.startsWith(`${prefix}/`) ? key.slice(prefix.length + 1) : key);
  return Object.entries(labels)
    .map(([key, value]) => `${short(key)}=${value}`)
    .sort()
    .join(",");
}

/** All labels of a place, as a volume reports them. */
export const segmentsOf = (place: AccessibleTopology): Segments => ({ ...place.requirements, ...place.extra });

/**
 * Where a new volume of a connection will be reachable from. One requisite term that fits one place is enough (CSI
 * CreateVolume). Throws "resource-exhausted" when none fits, the only code on which Kubernetes tries another node, and
 * "invalid-argument" when no term names a key that the connection could know.
 */
export function accessibleTopologyFor(
  places: readonly AccessibleTopology[],
  demand: AccessibilityRequirements,
  policy: PlacementPolicy,
): readonly Segments[] {
  const { requisite, preferred } = demand;
  const [first] = preferred;
  if (places.length === 0) return [];
  if (
    first &&
    policy.honourPreferred === "first" &&
    usable(places, first, policy) &&
    !fitsTerm(places, first, policy)
  ) {
    throw refusal(places, [first], "the preferred place is");
  }
  if (requisite.length === 0) return places.map(segmentsOf);
  const terms = requisite.filter(term => usable(places, term, policy));
  if (terms.length === 0) {
    throw new CsiError(
      "invalid-argument",
      `no requested topology names a key with the prefix "${policy.prefix}/": ${alternatives(requisite)}`,
    );
  }
  const fitting = places.filter(each => terms.some(term => fits(each, term, policy)));
  if (fitting.length === 0) throw refusal(places, terms, "the request allows only");
  return (policy.report === "requisite" ? fitting : places).map(segmentsOf);
}

/** Whether a term fits one of the places. A connection without places is reachable from everywhere. */
export const fitsTerm = (places: readonly AccessibleTopology[], term: Segments, policy: PlacementPolicy): boolean =>
  places.length === 0 || (usable(places, term, policy) && places.some(each => fits(each, term, policy)));

/** How much a request prefers a connection: the index of the first preferred term that fits, their number where none does. */
export function preferenceOf(
  places: readonly AccessibleTopology[],
  { preferred }: AccessibilityRequirements,
  policy: PlacementPolicy,
): number {
  const index = preferred.findIndex(term => fitsTerm(places, term, policy));
  return index < 0 ? preferred.length : index;
}

/** Whether a volume could be made for nodes of this segment; the empty one is anywhere. For GetCapacity. */
export const isReachableFrom = (
  places: readonly AccessibleTopology[],
  segment: Segments,
  policy: PlacementPolicy,
): boolean => Object.keys(segment).length === 0 || fitsTerm(places, segment, policy);

/** A term speaks of this connection when it has a key of ours or a label that one of the places carries. */
const usable = (places: readonly AccessibleTopology[], term: Segments, { prefix }: PlacementPolicy): boolean =>
  Object.keys(term).some(key => key.startsWith(`${prefix}/`) || places.some(({ extra }) => Object.hasOwn(extra, key)));

const fits = (each: AccessibleTopology, term: Segments, { match }: PlacementPolicy): boolean =>
  agree(segmentsOf(each), term) &&
  (match === "lenient" || Object.keys(each.requirements).every(key => Object.hasOwn(term, key)));

const agree = (labels: Segments, term: Segments): boolean =>
  Object.entries(term).every(([key, value]) => !Object.hasOwn(labels, key) || labels[key] === value);

const shown = (segments: Segments): string => topologyText(segments);
const alternatives = (all: readonly Segments[]): string => all.map(shown).join(" or ");

const refusal = (places: readonly AccessibleTopology[], terms: readonly Segments[], what: string): CsiError =>
  new CsiError(
    "resource-exhausted",
    `the storage is reachable from ${alternatives(places.map(segmentsOf))}, but ${what} ${alternatives(terms)}`,
  );

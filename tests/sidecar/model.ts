import type { Segments } from "../../lib/core/access.ts";
import type { AccessibilityRequirements } from "../../lib/topology/accessible-topology.ts";

/** A node as external-provisioner sees it. */
export interface ClusterNode {
  readonly name: string;
  /** Keys that the driver registered (CSINode); empty if it did not register. */
  readonly keys: readonly string[];
  /** Labels of the Node object. */
  readonly labels: Segments;
}

/** One entry of a StorageClass's `allowedTopologies`: every expression must hold, with one of its values. */
export type AllowedTerm = readonly { readonly key: string; readonly values: readonly string[] }[];

/** The flags of external-provisioner for topology; the defaults of 5.x are strict off and immediate on. */
export interface SidecarFlags {
  /** `--strict-topology` */
  readonly strict: boolean;
  /** `--immediate-topology` */
  readonly immediate: boolean;
}

/** A claim without a volume. */
export interface Claim {
  readonly name: string;
  readonly allowed: readonly AllowedTerm[];
  /** The node that the scheduler chose (WaitForFirstConsumer); undefined with Immediate binding. */
  readonly selected: ClusterNode | undefined;
  /**
   * The node that provides the keys with Immediate binding, which external-provisioner chooses at random.
   * Undefined: the first with keys.
   */
  readonly drawn?: ClusterNode;
}

/** The accessibility requirements of a CreateVolume call (undefined: none), or why there is no call. */
export type SidecarRequest = { readonly demand: AccessibilityRequirements | undefined } | { readonly refusal: string };

/**
 * The request of external-provisioner (topology code of release 6) for a claim, if the driver announces
 * VOLUME_ACCESSIBILITY_CONSTRAINTS.
 */
export function sidecarRequest(nodes: readonly ClusterNode[], flags: SidecarFlags, claim: Claim): SidecarRequest {
  const { selected, allowed } = claim;
  const own = selected && termOf(selected, selected.keys);
  if (selected && selected.keys.length === 0) return { refusal: `no topology key found for node ${selected.name}` };
  if (selected && !own) return { refusal: `node ${selected.name} lacks a label that its CSINode names` };
  if (own && flags.strict) return strictRequest(own, allowed);
  const terms = allowed.length > 0 ? flatten(allowed) : aggregate(nodes, flags, claim);
  if (!Array.isArray(terms)) return terms;
  const requisite = sorted(terms);
  if (requisite.length === 0) return { demand: undefined };
  if (!own) return requirementsOf(requisite, rotation(claim.name, requisite.length));
  const first = requisite.findIndex(term => isSubset(term, own));
  if (first < 0) return { refusal: `the topology of node ${selected?.name} is not among the requisite ones` };
  return requirementsOf(requisite, first);
}

function strictRequest(own: Segments, allowed: readonly AllowedTerm[]): SidecarRequest {
  if (allowed.length > 0 && !flatten(allowed).some(term => isSubset(term, own)))
    return { refusal: "the selected node is not in allowedTopologies" };
  return requirementsOf([own], 0);
}

/** One term for each combination of values. After an expression without values, the terms start again. */
function flatten(allowed: readonly AllowedTerm[]): Segments[] {
  return allowed.flatMap(expressions =>
    expressions.reduce<Segments[]>((terms, { key, values }) => {
      const before = terms.length > 0 ? terms : [{}];
      return values.flatMap(value => before.map(term => ({ ...term, [key]: value })));
    }, []),
  );
}

/** The terms of all nodes that have every key, or the final request. */
function aggregate(
  nodes: readonly ClusterNode[],
  { immediate }: SidecarFlags,
  { selected, drawn }: Claim,
): Segments[] | SidecarRequest {
  if (!selected && !immediate) return { demand: undefined };
  const keys = (selected ?? drawn ?? nodes.find(node => node.keys.length > 0))?.keys ?? [];
  if (keys.length === 0) return { refusal: "no available topology found" };
  const terms = nodes.map(node => termOf(node, keys)).filter(term => term !== undefined);
  return terms.length > 0 ? terms : { refusal: `topology keys ${keys.join(", ")} were not found on any node` };
}

function termOf({ labels }: ClusterNode, keys: readonly string[]): Segments | undefined {
  if (!keys.every(key => Object.hasOwn(labels, key))) return undefined;
  return Object.fromEntries(keys.map(key => [key, labels[key] ?? ""]));
}

/** Whether every label of a term is in another. */
const isSubset = (term: Segments, of: Segments): boolean =>
  Object.entries(term).every(([key, value]) => Object.hasOwn(of, key) && of[key] === value);

/** Distinct terms, short ones first, then by text. */
function sorted(terms: readonly Segments[]): readonly Segments[] {
  const byText = new Map<string, readonly (readonly [string, string])[]>();
  for (const term of terms) {
    const entries = Object.entries(term).sort(([a], [b]) => compare(a, b));
    byText.set(JSON.stringify(entries), entries);
  }
  return [...byText.values()].sort(compareTerms).map(entries => Object.fromEntries(entries));
}

function compareTerms(a: readonly (readonly [string, string])[], b: readonly (readonly [string, string])[]): number {
  if (a.length !== b.length) return a.length - b.length;
  for (const [index, [key, value]] of a.entries()) {
    const [otherKey = "", otherValue = ""] = b[index] ?? [];
    const order = compare(key, otherKey) || compare(value, otherValue);
    if (order !== 0) return order;
  }
  return 0;
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const requirementsOf = (requisite: readonly Segments[], first: number): SidecarRequest => ({
  demand: { requisite, preferred: [...requisite.slice(first), ...requisite.slice(0, first)] },
});

/**
 * The first preferred term of an immediately bound claim: a hash of its name, which spreads the volumes of a class. A trailing
 * number is the ordinal of a StatefulSet: it is added, and only the word before it is hashed.
 */
function rotation(claim: string, terms: number): number {
  const [, base, ordinal] = /^(.*)-([0-9]+)$/s.exec(claim) ?? [];
  const index = Number(ordinal);
  if (base === undefined || index > 0xffff_ffff) return fnv32(claim) % terms;
  return ((fnv32(base.slice(base.lastIndexOf("-") + 1)) + index) >>> 0) % terms;
}

/** FNV-1, 32 bits (multiply first, then exclusive or), over the UTF-8 bytes. */
function fnv32(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash, 0x01000193) ^ byte;
  return hash >>> 0;
}

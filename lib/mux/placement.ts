import { type Access, type Capability, firstUnmet, type Segments } from "../core/access.ts";
import { CsiError } from "../core/errors.ts";
import {
  type AccessibilityRequirements,
  type AccessibleTopology,
  accessibleTopologyFor,
  type PlacementPolicy,
  preferenceOf,
} from "../topology/accessible-topology.ts";

/** What of a connection decides whether it takes a volume. */
export interface PlacementTarget {
  readonly name: string;
  readonly accessibleTopology: readonly AccessibleTopology[];
  readonly suspended: boolean;
  /** Undefined where only the file was read: then the capabilities are not judged. */
  readonly access?: Access | undefined;
}

/** What of a request decides about it. */
export interface PlacementRequest {
  readonly accessibility: AccessibilityRequirements;
  readonly capabilities: readonly Capability[];
}

/** How a connection would take a volume. */
export interface Placement {
  /** Where the volume would be reachable from; empty: everywhere. */
  readonly accessibleTopology: readonly Segments[];
  /** Index of the first preferred term that it is reachable from; lower is better. */
  readonly preference: number;
}

/**
 * Whether a connection would take a new volume, and if not why: "invalid-argument" when it never will, "resource-exhausted" when
 * another connection or another node may help. How much is free is not looked at. Pure.
 */
export function evaluatePlacement(
  connection: PlacementTarget,
  wanted: PlacementRequest,
  policy: PlacementPolicy,
): Placement | CsiError {
  const refused = (code: CsiError["code"], why: string) =>
    new CsiError(code, `connection "${connection.name}": ${why}`);
  const unmet = connection.access && firstUnmet(connection.access, wanted.capabilities);
  if (unmet !== undefined) return refused("invalid-argument", unmet);
  if (connection.suspended) return refused("resource-exhausted", "it is suspended and takes no new volumes");
  try {
    const places = accessibleTopologyFor(connection.accessibleTopology, wanted.accessibility, policy);
    return {
      accessibleTopology: places,
      preference: preferenceOf(connection.accessibleTopology, wanted.accessibility, policy),
    };
  } catch (error) {
    if (error instanceof CsiError) return refused(error.code, error.message);
    throw error;
  }
}

import { type Capability, firstUnmet, type Segments } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import type { Source } from "../drivers/driver.ts";
import type { PlacementPolicy } from "../topology/accessible-topology.ts";
import { ability, unable } from "./ability.ts";
import type { Connection } from "./connection.ts";
import type { Lookup } from "./lookup.ts";
import { evaluatePlacement } from "./placement.ts";
import type { CreateRequest } from "./routed.ts";

/** Throws "invalid-argument" for the first capability that the connection's volumes cannot satisfy. */
export function refuseUnmet(connection: Connection, capabilities: readonly Capability[]): void {
  const reason = firstUnmet(connection.access, capabilities);
  if (reason !== undefined) throw new CsiError("invalid-argument", `connection "${connection.name}": ${reason}`);
}

/** The source in terms of the driver. Throws "invalid-argument" when it is on another connection or of a kind that the driver cannot copy. */
export function sourceOn(connection: Connection, source: Handle): Source {
  if (source.connection !== connection.name) {
    throw new CsiError(
      "invalid-argument",
      `the source is on connection "${source.connection}", the new volume on "${connection.name}"; name the source's connection`,
    );
  }
  if (!ability(connection, "clones").from.includes(source.kind))
    throw unable(connection, `make a volume from a ${source.kind}`);
  return { kind: source.kind, id: source.id };
}

/**
 * Where the volume will be reachable from. Throws, before anything is made, when it may not be made here; then nothing of an
 * earlier, interrupted creation is left either. `begun`: this process began it here. The caller holds the lock of the volume.
 */
export async function topologyOfNew(
  connection: Connection,
  request: CreateRequest,
  begun: boolean,
  policy: PlacementPolicy,
  lookup: Lookup,
  call: Call,
): Promise<readonly Segments[]> {
  const verdict = evaluatePlacement(connection, request, policy);
  if (!(verdict instanceof CsiError)) return verdict.accessibleTopology;
  if (verdict.code !== "resource-exhausted") throw verdict;
  const found = await lookup.clear(connection, request.name, call);
  // A driver that cannot look up by name finds a volume that it began by making it once more.
  const exists = found !== undefined || (begun && connection.driver.names === undefined);
  if (!exists) throw verdict;
  return topologyOfExisting(connection, request, policy);
}

/**
 * A volume that is there answers every request whose requirements it meets; a preference is none (CSI TopologyRequirement), and
 * suspending a connection is about new volumes.
 */
function topologyOfExisting(connection: Connection, request: CreateRequest, policy: PlacementPolicy) {
  const verdict = evaluatePlacement({ ...connection, suspended: false }, request, {
    ...policy,
    honourPreferred: "off",
  });
  if (!(verdict instanceof CsiError)) return verdict.accessibleTopology;
  if (verdict.code !== "resource-exhausted") throw verdict;
  throw new CsiError("already-exists", `volume "${request.name}" exists, but ${verdict.message}`);
}

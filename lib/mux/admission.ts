import { type Capability, firstUnmet } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import type { Segments } from "../core/topology.ts";
import type { Source } from "../drivers/driver.ts";
import { type PlacementPolicy, place } from "../topology/place.ts";
import { ability, unable } from "./ability.ts";
import type { Connection } from "./connection.ts";
import { clearLeftover, existing } from "./leftover.ts";
import type { CreateRequest } from "./placed.ts";

/** Throws "invalid-argument" for the first capability that the connection's volumes cannot satisfy. */
export function refuseUnmet(connection: Connection, capabilities: readonly Capability[]): void {
  const reason = firstUnmet(connection.access, capabilities);
  if (reason === undefined) return;
  throw new CsiError(
    "invalid-argument",
    `connection "${connection.name}" (driver ${connection.driverName}): ${reason}`,
  );
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

/** Where the volume will be reachable from. Throws, before anything is made, when it may not be made here; `found`: it exists. */
export async function placesFor(
  connection: Connection,
  request: CreateRequest,
  found: boolean,
  policy: PlacementPolicy,
  call: Call,
): Promise<readonly Segments[]> {
  const exists = async () => found || (await existing(connection, request.name, call)) !== undefined;
  if (connection.suspended && !(await exists())) throw suspended(connection);
  try {
    return place(connection.places, request.demand, policy);
  } catch (error) {
    if (!isRefusal(error)) throw namedAfter(connection, error);
    if (await exists()) return placeOfExisting(connection, request, policy);
    await clearLeftover(connection, request.name, call);
    throw namedAfter(connection, error);
  }
}

const suspended = (connection: Connection): CsiError =>
  new CsiError("resource-exhausted", `connection "${connection.name}" is suspended and takes no new volumes`);

/** The same failure, so that who reads it in an event of a claim knows which connection file to look at. */
const namedAfter = ({ name }: Connection, error: unknown): unknown =>
  error instanceof CsiError ? new CsiError(error.code, `connection "${name}": ${error.message}`) : error;

const isRefusal = (error: unknown): error is CsiError =>
  error instanceof CsiError && error.code === "resource-exhausted";

/** A volume that is there answers every request whose requirements it meets; a preference is none (CSI TopologyRequirement). */
function placeOfExisting(
  connection: Connection,
  { name, demand }: CreateRequest,
  policy: PlacementPolicy,
): readonly Segments[] {
  try {
    return place(connection.places, demand, { ...policy, honourPreferred: "off" });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw new CsiError(
      "already-exists",
      `volume "${name}" exists on connection "${connection.name}", but ${error.message}`,
    );
  }
}

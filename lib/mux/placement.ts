import {
  type Access,
  type Capability,
  firstUnmet,
  fixedFilesystems,
  leastBytes,
  type Segments,
} from "../core/access.ts";
import { type CapacityRange, wantedBytes } from "../core/bytes.ts";
import { CsiError, hasCode } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import type { Ability, Context, Driver, Source } from "../drivers/driver.ts";
import { deleteStrategyKey } from "../drivers/tenure.ts";
import {
  type AccessibilityRequirements,
  type AccessibleTopology,
  accessibleTopologyFor,
  type PlacementPolicy,
  preferenceOf,
} from "../topology/accessible-topology.ts";
import type { Connection } from "./connection.ts";

/** The properties of a connection that decide whether it takes a volume. */
export interface PlacementTarget {
  readonly name: string;
  readonly accessibleTopology: readonly AccessibleTopology[];
  readonly suspended: boolean;
  /** Undefined if only the file was read: then capabilities are not checked. */
  readonly access?: Access | undefined;
}

/** The properties of a request that decide about it. */
export interface PlacementRequest {
  readonly accessibility: AccessibilityRequirements;
  readonly capabilities: readonly Capability[];
  /** Not judged if it is absent, nor for a copy, which has the file system of its source. */
  readonly range?: CapacityRange | undefined;
  readonly source?: Source | undefined;
}

/** How a connection would take a volume. */
export interface Placement {
  /** Where the volume would be reachable from; empty: everywhere. */
  readonly accessibleTopology: readonly Segments[];
  /** Index of the first preferred term that it is reachable from; lower is better. */
  readonly preference: number;
}

/**
 * Whether a connection would take a new volume. The error says why not: "invalid-argument" if it never will, "out-of-range" for a disk
 * on which no node could make the file system, "resource-exhausted" if another connection or node may help. Free space is not considered. Pure.
 */
export function evaluatePlacement(
  connection: PlacementTarget,
  request: PlacementRequest,
  policy: PlacementPolicy,
): Placement | CsiError {
  const { name, accessibleTopology: reachable } = connection;
  const { capabilities, accessibility } = request;
  const refused = (code: CsiError["code"], why: string) => new CsiError(code, `connection "${name}": ${why}`);
  const unmet = connection.access && firstUnmet(connection.access, capabilities);
  if (unmet !== undefined) return refused("invalid-argument", unmet);
  const small = connection.access && tooSmall(connection.access, request);
  if (small) return refused("out-of-range", small);
  if (connection.suspended) return refused("resource-exhausted", "it is suspended and takes no new volumes");
  try {
    const accessibleTopology = accessibleTopologyFor(reachable, accessibility, policy);
    return { accessibleTopology, preference: preferenceOf(reachable, accessibility, policy) };
  } catch (error) {
    if (error instanceof CsiError) return refused(error.code, error.message);
    throw error;
  }
}

/** Why no node can make the file system on a new disk of this size. */
function tooSmall(access: Access, { capabilities, range, source }: PlacementRequest): string | undefined {
  if (!range || source || access.filesystems === "any") return undefined;
  const bytes = wantedBytes(range);
  const fsType = capabilities.map(each => each.fsType ?? "").find(type => bytes < (leastBytes[type] ?? 0n));
  return fsType && `${fsType} needs ${leastBytes[fsType]} bytes, and ${bytes} are requested`;
}

/**
 * Like `evaluatePlacement` for a volume that exists: it satisfies every request whose requirements it meets. A preference is not one
 * (CSI TopologyRequirement), and suspending a connection concerns new volumes only.
 */
export function evaluateExisting(
  connection: PlacementTarget,
  request: PlacementRequest & { readonly name: string },
  policy: PlacementPolicy,
): Placement | CsiError {
  const verdict = evaluatePlacement(
    { ...connection, suspended: false },
    { ...request, range: undefined },
    { ...policy, honourPreferred: "off" },
  );
  return verdict instanceof CsiError && verdict.code === "resource-exhausted"
    ? new CsiError("already-exists", `volume "${request.name}" exists, but ${verdict.message}`)
    : verdict;
}

/** Throws "invalid-argument" for the first capability that the connection's volumes do not have. */
export function refuseUnmet({ name, access }: Connection, capabilities: readonly Capability[]): void {
  const reason = firstUnmet(access, capabilities);
  if (reason !== undefined) throw new CsiError("invalid-argument", `connection "${name}": ${reason}`);
}

/**
 * Throws "invalid-argument" for a capability with which a volume cannot grow. A node would grow the disk only, and kubelet report the new
 * size although the file system has the old one.
 */
export function refuseGrowth(connection: Connection, wanted: Capability): void {
  refuseUnmet(connection, [wanted]);
  if (wanted.kind !== "mount" || !fixedFilesystems.includes(wanted.fsType ?? "")) return;
  if (connection.access.filesystems === "any") return;
  const text = `connection "${connection.name}": the file system ${wanted.fsType} cannot grow; create a larger volume and copy the files`;
  throw new CsiError("invalid-argument", text);
}

/** The source in terms of its own driver. Throws "invalid-argument" if it is of a kind that the driver cannot copy. */
export function sourceOn(connection: Connection, source: Handle): Source {
  if (!ability(connection, "clones").from.includes(source.kind))
    throw unable(connection, `create a volume from a ${source.kind}`);
  return { kind: source.kind, id: source.id };
}

const abilityWords: Readonly<Record<Ability, string>> = {
  names: "look up volumes by name",
  reading: "read a volume",
  modify: "change properties of a volume",
  groupSnapshots: "take snapshots of several volumes at once",
  snapshotMetadata: "list the blocks of snapshots",
  expand: "expand volumes",
  snapshots: "take snapshots",
  clones: "create a volume from another one",
  capacity: "report its capacity",
  inventory: "list its volumes",
  kept: "tell what is kept on it",
  health: "report the health of its volumes",
  inline: "create ephemeral inline volumes",
  retention: "keep the volumes of a class (deleteStrategy: retain, adopt: byClaim)",
  copySource: "be the source of copies",
  copyTarget: "be the target of copies",
};

/**
 * The member of the driver. Throws "invalid-argument" if it is absent, because sidecars take "unimplemented" for a statement about the
 * whole driver name.
 */
export function ability<A extends Ability>(connection: Connection, name: A): NonNullable<Driver[A]> {
  const member = connection.driver[name];
  if (member === undefined) throw unable(connection, abilityWords[name]);
  return member as NonNullable<Driver[A]>;
}

/** Throws "invalid-argument" for a parameter that is probably misspelt: what the class asks for would not happen. */
export function refuseMisspelt(connection: Connection, ...of: Parameters<NonNullable<Connection["misspelt"]>>): void {
  const why = connection.misspelt?.(...of);
  if (why !== undefined) throw new CsiError("invalid-argument", `connection "${connection.name}": ${why}`);
}

/**
 * Throws "invalid-argument" for a misspelt parameter of a StorageClass, and if it keeps its volumes, and the driver cannot: DeleteVolume
 * would remove them.
 */
export function refuseClass(connection: Connection, parameters: Context): void {
  refuseMisspelt(connection, "storage", parameters);
  if (parameters[deleteStrategyKey] === "retain") ability(connection, "retention");
}

const unable = ({ name, driverName }: Connection, what: string): CsiError =>
  new CsiError("invalid-argument", `connection "${name}" (driver ${driverName}) cannot ${what}`);

/**
 * The result of an expansion. external-resizer takes "failed-precondition" for "in use" and stops while a pod uses the volume, although
 * a tool or a permission may be missing; "unavailable" is retried, which is right for both.
 */
export async function notInUse<T>(expanding: Promise<T>): Promise<T> {
  try {
    return await expanding;
  } catch (error) {
    if (!hasCode(error, "failed-precondition")) throw error;
    throw new CsiError("unavailable", error.message, { cause: error });
  }
}

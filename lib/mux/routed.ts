import type { Capability, Segments } from "../core/access.ts";
import type { CapacityRange } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import { encodeGroup, type Handle } from "../core/handle.ts";
import type { Context, Snapshot, Source, Volume } from "../drivers/driver.ts";
import { type AccessibilityRequirements, type PlacementPolicy, segmentsOf } from "../topology/accessible-topology.ts";
import type { Connection } from "./connection.ts";
import type { Handles } from "./handles.ts";

/** A volume as the outside sees it: its id and that of its source are handles, and it has places. */
export interface RoutedVolume extends Volume {
  readonly accessibleTopology: readonly Segments[];
}

/** A snapshot as the outside sees it: its ids are handles; volumes made from it are reachable from its places (none: everywhere). */
export interface RoutedSnapshot extends Snapshot {
  readonly accessibleTopology: readonly Segments[];
}

/** A volume that somebody wants; `source.id` is a handle. */
export interface CreateRequest {
  readonly name: string;
  readonly range: CapacityRange;
  readonly capabilities: readonly Capability[];
  readonly parameters: Context;
  readonly source: Source | undefined;
  readonly accessibility: AccessibilityRequirements;
  /** Properties that may be changed later (CSI CreateVolumeRequest.mutable_parameters). */
  readonly mutable: Context;
}

/** One running CreateVolume. */
export interface Creation {
  /** What the class names: a connection or a group. */
  readonly named: string;
  readonly request: CreateRequest;
  readonly source: Handle | undefined;
  readonly call: Call;
}

/** What the main file says about all connections; it may change while csimux runs, so it is asked for at each use. */
export interface RouterSettings {
  readonly policy: PlacementPolicy;
  readonly legacyConnection: string | undefined;
  /**
   * The only connection, where the main file is one itself or the driver's name stands for one: classes need not name it, and ids
   * have no prefix.
   */
  readonly single: string | undefined;
  /** What an unfiltered listing does about a connection that cannot answer: fail, or leave it out. */
  readonly listing: "complete" | "partial";
}

/** A driver's snapshot with its handles and the places of its connection, where alone volumes can be made from it. */
export function routedSnapshot(handles: Handles, connection: Connection, snapshot: Snapshot): RoutedSnapshot {
  const { name } = connection;
  return {
    ...snapshot,
    id: handles.encode("snapshot", name, snapshot.id),
    volumeId: handles.encode("volume", name, snapshot.volumeId),
    group: snapshot.group && encodeGroup({ connection: name, id: snapshot.group }),
    accessibleTopology: connection.accessibleTopology.map(segmentsOf),
  };
}

/** A driver's volume with its handle and the places of its connection. */
export function routedVolume(handles: Handles, connection: Connection, volume: Volume): RoutedVolume {
  const { name } = connection;
  const { source: from } = volume;
  const source = from && { kind: from.kind, id: handles.encode(from.kind, name, from.id) };
  return {
    ...volume,
    id: handles.encode("volume", name, volume.id),
    source,
    accessibleTopology: connection.accessibleTopology.map(segmentsOf),
  };
}

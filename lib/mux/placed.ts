import type { Capability } from "../core/access.ts";
import type { CapacityRange } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import { encodeGroup, encodeHandle, type Handle } from "../core/handle.ts";
import type { Segments } from "../core/topology.ts";
import type { Context, Snapshot, Source, Volume } from "../drivers/driver.ts";
import { type Demand, type PlacementPolicy, segmentsOf } from "../topology/place.ts";
import type { Connection } from "./connection.ts";

/** A volume as the outside sees it: its id and that of its source are handles, and it has places. */
export interface PlacedVolume extends Volume {
  readonly places: readonly Segments[];
}

/** A snapshot as the outside sees it: its ids are handles; volumes made from it are reachable from its places (none: everywhere). */
export interface PlacedSnapshot extends Snapshot {
  readonly places: readonly Segments[];
}

/** A volume that somebody wants; `source.id` is a handle. */
export interface CreateRequest {
  readonly name: string;
  readonly range: CapacityRange;
  readonly capabilities: readonly Capability[];
  readonly parameters: Context;
  readonly source: Source | undefined;
  readonly demand: Demand;
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
export interface MuxSettings {
  readonly policy: PlacementPolicy;
  readonly legacyConnection: string | undefined;
  /** The only connection, where the main file is one itself: classes need not name it, and ids have no prefix. */
  readonly single: string | undefined;
  /** What an unfiltered listing does about a connection that cannot answer: fail, or leave it out. */
  readonly listing: "complete" | "partial";
}

/** The CSI id of what a driver calls `id`: its own where the connection is the only one. */
const handleOn = ({ name, single }: Connection, kind: Handle["kind"], id: string): string =>
  single ? id : encodeHandle({ kind, connection: name, id });

/** A driver's snapshot with its handles and the places of its connection, where alone volumes can be made from it. */
export function snapshotOn(connection: Connection, snapshot: Snapshot): PlacedSnapshot {
  return {
    ...snapshot,
    id: handleOn(connection, "snapshot", snapshot.id),
    volumeId: handleOn(connection, "volume", snapshot.volumeId),
    group: snapshot.group && encodeGroup({ connection: connection.name, id: snapshot.group }),
    places: connection.places.map(segmentsOf),
  };
}

/** A driver's volume with its handle and the places of its connection. */
export function placedOn(connection: Connection, volume: Volume): PlacedVolume {
  const { source: from } = volume;
  const source = from && { kind: from.kind, id: handleOn(connection, from.kind, from.id) };
  return {
    ...volume,
    id: handleOn(connection, "volume", volume.id),
    source,
    places: connection.places.map(segmentsOf),
  };
}

import type { Segments } from "../core/access.ts";
import { CsiError } from "../core/errors.ts";
import { encodeGroup, encodeHandle, type Handle, maxHandleBytes, parseHandle } from "../core/handle.ts";
import type { GroupSnapshot, Snapshot, Volume } from "../drivers/driver.ts";
import { segmentsOf } from "../topology/accessible-topology.ts";
import type { Connection } from "./connection.ts";

/** A volume for callers: its id and that of its source are handles. */
export interface RoutedVolume extends Volume {
  readonly accessibleTopology: readonly Segments[];
}

/** A snapshot for callers: its ids are handles; volumes created from it are reachable from its topologies (none: everywhere). */
export interface RoutedSnapshot extends Snapshot {
  readonly accessibleTopology: readonly Segments[];
}

/** A group snapshot for callers: all its ids are handles. */
export interface RoutedGroupSnapshot extends GroupSnapshot {
  readonly snapshots: readonly RoutedSnapshot[];
}

/**
 * Parses and writes the ids that callers use. With a legacy connection, ids without a prefix belong to it: a deployment of one driver
 * that was taken over in place.
 */
export class Handles {
  readonly #legacy: () => string | undefined;
  readonly #single: () => string | undefined;

  /** `single`: the connection whose new ids have no prefix either. */
  constructor(legacyConnection: () => string | undefined, single: () => string | undefined = () => undefined) {
    this.#legacy = legacyConnection;
    this.#single = single;
  }

  /** The handle; undefined for an id that csimux cannot have created. */
  parse(text: string, kind: Handle["kind"]): Handle | undefined {
    const handle = parseHandle(text, kind);
    if (handle || text === "" || /^[vs]:/.test(text)) return handle;
    const connection = this.#legacy();
    return connection === undefined ? undefined : { kind, connection, id: text };
  }

  /** Like `parse`, but throws "not-found" for an id that csimux cannot have created. */
  known(text: string, kind: Handle["kind"]): Handle {
    const handle = this.parse(text, kind);
    if (handle) return handle;
    throw new CsiError("not-found", `${kind} "${text}" is not an id of this driver (${kind[0]}:<connection>/<id>)`);
  }

  /**
   * The id of an existing object for callers of this driver name. It may be longer than CSI allows: volumes from before csimux have ids
   * of any length and must stay visible.
   */
  encode(kind: Handle["kind"], connection: string, id: string): string {
    return connection === this.#single() && id !== "" ? id : encodeHandle({ kind, connection, id });
  }

  /** The id of an object that a driver has just created. Throws "internal" if it is longer than CSI allows: drivers know their limit. */
  encodeNew(kind: Handle["kind"], connection: string, id: string): string {
    return short(this.encode(kind, connection, id), connection, kind);
  }

  /** A driver's volume with its handles. */
  volume({ name, accessibleTopology }: Connection, volume: Volume): RoutedVolume {
    const { id, source } = volume;
    return {
      ...volume,
      id: this.encode("volume", name, id),
      source: source && { kind: source.kind, id: this.encode(source.kind, name, source.id) },
      accessibleTopology: accessibleTopology.map(segmentsOf),
    };
  }

  /** A driver's snapshot with its handles and the topologies of its connection: volumes can be created from it only there. */
  snapshot({ name, accessibleTopology }: Connection, snapshot: Snapshot): RoutedSnapshot {
    return {
      ...snapshot,
      id: this.encode("snapshot", name, snapshot.id),
      volumeId: this.encode("volume", name, snapshot.volumeId),
      group: snapshot.group && encodeGroup({ connection: name, id: snapshot.group }),
      accessibleTopology: accessibleTopology.map(segmentsOf),
    };
  }

  /** A driver's group snapshot with its handles. Throws like `encodeNew`. */
  groupSnapshot(connection: Connection, group: GroupSnapshot): RoutedGroupSnapshot {
    const { name } = connection;
    const id = short(encodeGroup({ connection: name, id: group.id }), name, "group snapshot");
    return {
      ...group,
      id,
      snapshots: group.snapshots.map(each => this.snapshot(connection, { ...each, group: group.id })),
    };
  }
}

function short(text: string, connection: string, kind: string): string {
  if (Buffer.byteLength(text) <= maxHandleBytes) return text;
  throw new CsiError("internal", `connection "${connection}" returned a ${kind} id too long for a handle: "${text}"`);
}

/** The key that locks a volume name on all connections: a group checks its members one by one before it creates a volume. */
export const nameLock = (volume: string): string => `volume name ${volume}`;

/** The key that locks a volume or snapshot of a connection, whatever its file says meanwhile. */
export const lockKey = ({ kind, connection, id }: Handle): string => `${kind} ${connection}/${id}`;

/** The key that locks the volume of this name on a connection. */
export const volumeLock = ({ name, driver }: Pick<Connection, "name" | "driver">, volume: string): string =>
  lockKey({ kind: "volume", connection: name, id: driver.names?.idOf(volume) ?? volume });

import { CsiError } from "../core/errors.ts";
import { encodeHandle, type Handle, maxHandleBytes, parseHandle } from "../core/handle.ts";
import type { Connection } from "./connection.ts";

/**
 * Reads ids from outside and makes ours. With a legacy connection, ids without a prefix are that connection's:
 * a deployment of one driver, taken over in place.
 */
export class Handles {
  readonly #legacy: () => string | undefined;
  readonly #single: () => string | undefined;

  /** `single`: the connection whose new ids have no prefix either. */
  constructor(legacyConnection: () => string | undefined, single: () => string | undefined = () => undefined) {
    this.#legacy = legacyConnection;
    this.#single = single;
  }

  /** The handle, or undefined for an id that csimux cannot have made. */
  parse(text: string, kind: Handle["kind"]): Handle | undefined {
    const handle = parseHandle(text, kind);
    if (handle || text === "" || /^[vs]:/.test(text)) return handle;
    const connection = this.#legacy();
    return connection === undefined ? undefined : { kind, connection, id: text };
  }

  /** The handle; throws "not-found" for an id that is not ours: what csimux cannot have made does not exist. */
  known(text: string, kind: Handle["kind"]): Handle {
    const handle = this.parse(text, kind);
    if (handle) return handle;
    throw new CsiError("not-found", `${kind} "${text}" is not one of this driver (${kind[0]}:<connection>/<id>)`);
  }

  /**
   * The id of something that exists, as callers of this driver's name know it. It may be longer than CSI allows: volumes that were
   * made before csimux came have ids of any length, and must stay visible.
   */
  encode(kind: Handle["kind"], connection: string, id: string): string {
    return connection === this.#single() && id !== "" ? id : encodeHandle({ kind, connection, id });
  }

  /**
   * The id of something that a driver has just made. Throws "internal" for one that is longer than CSI allows: drivers know how much
   * room there is, so that is their defect.
   */
  encodeNew(kind: Handle["kind"], connection: string, id: string): string {
    const text = this.encode(kind, connection, id);
    if (Buffer.byteLength(text) <= maxHandleBytes) return text;
    throw new CsiError(
      "internal",
      `connection "${connection}" made a ${kind} id that is too long for a handle: "${id}"`,
    );
  }
}

/**
 * The key that locks a volume's name over all connections: a group looks at its members in several steps, between which
 * nobody else may make a volume of this name on one of them.
 */
export const nameLock = (volume: string): string => `volume name ${volume}`;

/** The key that locks a volume or snapshot of a connection. */
export const lockKey = ({ kind, connection, id }: Handle): string => `${kind} ${connection}/${id}`;

/** The key that locks the volume of this name on a connection. */
export const volumeLock = ({ name, driver }: Pick<Connection, "name" | "driver">, volume: string): string =>
  lockKey({ kind: "volume", connection: name, id: driver.names?.idOf(volume) ?? volume });

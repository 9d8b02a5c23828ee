import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import type { Context, SnapshotAbility } from "../drivers/driver.ts";
import { type AccessibilityRequirements, accessibleTopologyFor } from "../topology/accessible-topology.ts";
import { ability, asked } from "./ability.ts";
import type { Connection } from "./connection.ts";
import { fingerprint } from "./fingerprint.ts";
import { lockKey } from "./handles.ts";
import { type RoutedSnapshot, routedSnapshot } from "./routed.ts";
import type { RouterContext } from "./router-context.ts";

/** A snapshot that somebody wants of `volume`, a handle. */
export interface SnapshotRequest {
  readonly name: string;
  readonly volume: string;
  readonly parameters: Context;
  /** Where volumes made from it must be usable. */
  readonly accessibility: AccessibilityRequirements;
}

/** The operations on one snapshot, in terms of handles. */
export class Snapshots {
  readonly #common: RouterContext;

  constructor(common: RouterContext) {
    this.#common = common;
  }

  /**
   * CreateSnapshot; both ids of the answer are handles. The volume may be read by others meanwhile, not changed. Throws
   * "resource-exhausted" when volumes made from it could not be usable where they must be (CSI CreateSnapshotRequest).
   */
  async create(request: SnapshotRequest, call: Call): Promise<RoutedSnapshot> {
    const { name, volume, parameters } = request;
    const source = this.#common.handles.known(volume, "volume");
    await this.#refuseOther(parameters["connection"], source);
    await this.#common.breakers.refuse(source.connection);
    const key = `snapshot ${source.connection}/${name}`;
    const made = await this.#common.jobs.run(key, fingerprint(request), call, own =>
      this.#common.locks.hold([key], () => this.#make(source, request, own), [lockKey(source)]),
    );
    return { ...made, volumeId: volume };
  }

  /** GetSnapshot. Throws "not-found". */
  async get(text: string, call: Call): Promise<RoutedSnapshot> {
    const handle = this.#common.handles.known(text, "snapshot");
    return this.#common.connections.use(handle.connection, "retry", async connection =>
      routedSnapshot(
        this.#common.handles,
        connection,
        await this.#ask(connection, snapshots => snapshots.get(handle.id, call)),
      ),
    );
  }

  /** DeleteSnapshot. An id that csimux cannot have made does not exist, so it is gone (CSI DeleteSnapshot). */
  async delete(text: string, call: Call): Promise<void> {
    const handle = this.#common.handles.parse(text, "snapshot");
    if (!handle) return call.log.warn("deleted nothing: the id is not one of this driver", { snapshot: text });
    await this.#common.breakers.refuse(handle.connection);
    await this.#common.jobs.run(`delete ${encodeHandle(handle)}`, "", call, own =>
      this.#common.connections.use(handle.connection, "retry", connection =>
        this.#common.locks.hold([lockKey(handle)], () =>
          this.#ask(connection, snapshots => snapshots.delete(handle.id, own)),
        ),
      ),
    );
  }

  async #make(source: Handle, request: SnapshotRequest, call: Call): Promise<RoutedSnapshot> {
    const { connection: from } = source;
    const { name, parameters, accessibility: demand } = request;
    return this.#common.connections.use(from, "retry", async connection => {
      ability(connection, "snapshots");
      // The places of a snapshot are those of its connection, whatever is preferred.
      accessibleTopologyFor(connection.accessibleTopology, demand, {
        ...this.#common.settings().policy,
        honourPreferred: "off",
      });
      const made = await this.#ask(connection, snapshots => snapshots.create(name, source.id, parameters, call));
      return {
        ...routedSnapshot(this.#common.handles, connection, made),
        id: this.#common.handles.encodeNew("snapshot", from, made.id),
      };
    });
  }

  #ask<T>(connection: Connection, question: (snapshots: SnapshotAbility) => Promise<T>): Promise<T> {
    const snapshots = ability(connection, "snapshots");
    return asked(this.#common.breakers, connection, () => question(snapshots));
  }

  /** A snapshot class may name the connection, or a group that it belongs to. */
  async #refuseOther(named: string | undefined, { connection }: Handle): Promise<void> {
    if (!named || (await this.#common.groups.leads(named, connection))) return;
    throw new CsiError(
      "invalid-argument",
      `the snapshot class names "${named}", but the volume is on connection "${connection}"`,
    );
  }
}

import { type Capability, firstUnmet } from "../core/access.ts";
import { type CapacityRange, wantedBytes } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import type { Locks } from "../core/locks.ts";
import type { Context, Volume, VolumeSpec } from "../drivers/driver.ts";
import { ability, translated } from "./ability.ts";
import { placesFor, refuseUnmet, sourceOn } from "./admission.ts";
import { Begun } from "./begun.ts";
import type { Connection } from "./connection.ts";
import type { Connections } from "./connections.ts";
import { fingerprint } from "./fingerprint.ts";
import type { Groups } from "./groups.ts";
import { type Handles, lockKey, nameLock } from "./handles.ts";
import type { Jobs } from "./jobs.ts";
import { type CreateRequest, type MuxSettings, type PlacedVolume, placedOn } from "./placed.ts";
import type { Origin } from "./refusals.ts";

/** The operations on one volume, in terms of handles: which connection, which lock, which place. */
export class Volumes {
  readonly #connections: Connections;
  readonly #groups: Groups;
  readonly #handles: Handles;
  readonly #locks: Locks;
  readonly #jobs: Jobs;
  readonly #settings: () => MuxSettings;
  readonly #begun = new Begun();

  constructor(
    connections: Connections,
    groups: Groups,
    handles: Handles,
    locks: Locks,
    jobs: Jobs,
    settings: () => MuxSettings,
  ) {
    this.#connections = connections;
    this.#groups = groups;
    this.#handles = handles;
    this.#locks = locks;
    this.#jobs = jobs;
    this.#settings = settings;
  }

  /** CreateVolume. Topology is decided before anything is made; an equal volume that exists is returned. */
  async create(request: CreateRequest, call: Call): Promise<PlacedVolume> {
    const wanted = request.parameters["connection"] || this.#settings().single;
    if (!wanted) {
      throw new CsiError(
        "invalid-argument",
        'the class has no parameter "connection"; it must name a connection or a group',
      );
    }
    wantedBytes(request.range);
    const source = request.source && this.#handles.known(request.source.id, request.source.kind);
    return this.#jobs.run(`create ${wanted}/${request.name}`, fingerprint(request), call, async own =>
      (await this.#groups.has(wanted))
        ? this.#groups.create(wanted, request, source, own, (member, found) =>
            this.#make(member, "handle", request, source, found, own),
          )
        : this.#locks.hold([], () => this.#makeOn(wanted, request, source, own), [nameLock(request.name)]),
    );
  }

  /** DeleteVolume. An id that csimux cannot have made does not exist, so it is gone (CSI DeleteVolume). */
  async delete(text: string, call: Call): Promise<void> {
    const handle = this.#handles.parse(text, "volume");
    if (!handle) return call.log.warn("deleted nothing: the id is not one of this driver", { volume: text });
    await this.#exclusively("delete", handle, "", call, async (connection, own) => {
      if (connection.retain) return own.log.info("volume left in place: deleteStrategy is retain", { volume: text });
      await translated(connection, connection.driver.delete(handle.id, own));
      this.#groups.deleted(handle);
      // The id is the name, unless that was too long.
      this.#begun.forget(handle.id, handle.connection);
    });
  }

  /** ControllerGetVolume. */
  async get(text: string, call: Call): Promise<PlacedVolume> {
    const handle = this.#handles.known(text, "volume");
    return this.#connections.use(handle.connection, "handle", async connection =>
      placedOn(connection, await ability(connection, "reading").get(handle.id, call)),
    );
  }

  /**
   * ValidateVolumeCapabilities: the first reason why the volume cannot be used so, or not be one of a class with these
   * parameters; undefined when it can.
   */
  async unconfirmed(
    text: string,
    capabilities: readonly Capability[],
    parameters: Context,
    call: Call,
  ): Promise<string | undefined> {
    const handle = this.#handles.known(text, "volume");
    const named = parameters["connection"];
    return this.#connections.use(handle.connection, "handle", async connection => {
      await ability(connection, "reading").get(handle.id, call);
      if (named && !(await this.#groups.leads(named, handle.connection)))
        return `the parameters name "${named}", but the volume is on connection "${handle.connection}"`;
      return firstUnmet(connection.access, capabilities);
    });
  }

  /**
   * ControllerExpandVolume: the new size in bytes, and whether the node has work to do. Throws "invalid-argument" for a
   * capability that the volume does not have (CSI ControllerExpandVolume, "Exceeds capabilities").
   */
  async expand(
    text: string,
    range: CapacityRange,
    wanted: Capability | undefined,
    call: Call,
  ): Promise<{ readonly bytes: bigint; readonly onNode: boolean }> {
    wantedBytes(range);
    const handle = this.#handles.known(text, "volume");
    return this.#exclusively("expand", handle, fingerprint([range, wanted]), call, (connection, own) => {
      if (wanted) refuseUnmet(connection, [wanted]);
      return translated(connection, ability(connection, "expand").expand(handle.id, range, own));
    });
  }

  /** ControllerModifyVolume. Throws "invalid-argument" for properties that cannot be changed. */
  modify(text: string, properties: Context, call: Call): Promise<void> {
    const handle = this.#handles.known(text, "volume");
    return this.#exclusively("modify", handle, fingerprint([properties]), call, (connection, own) =>
      translated(connection, ability(connection, "modify").modify(handle.id, properties, own)),
    );
  }

  #exclusively<T>(
    verb: string,
    handle: Handle,
    args: string,
    call: Call,
    work: (connection: Connection, own: Call) => Promise<T>,
  ): Promise<T> {
    return this.#jobs.run(`${verb} ${encodeHandle(handle)}`, args, call, own =>
      this.#connections.use(handle.connection, "handle", connection =>
        this.#locks.hold([lockKey(handle)], async () => work(connection, own)),
      ),
    );
  }

  /**
   * On the connection that the class names. When its file has gone since the volume was begun, nobody can tell what there is of
   * it, so the author of the class is not told that nothing was made.
   */
  #makeOn(name: string, request: CreateRequest, source: Handle | undefined, call: Call): Promise<PlacedVolume> {
    const begun = this.#begun.members(request.name, name).length > 0;
    return this.#make(name, begun ? "handle" : "class", request, source, false, call);
  }

  /** A member of a group was there a moment ago, so its file is treated as that of an existing volume: repeat. */
  #make(
    name: string,
    origin: Origin,
    request: CreateRequest,
    source: Handle | undefined,
    found: boolean,
    call: Call,
  ): Promise<PlacedVolume> {
    return this.#connections.use(name, origin, connection => {
      const lock = lockKey({
        kind: "volume",
        connection: name,
        id: connection.driver.names?.idOf(request.name) ?? request.name,
      });
      refuseUnmet(connection, request.capabilities);
      const inner = source && sourceOn(connection, source);
      const work = async (): Promise<PlacedVolume> => {
        const places = await placesFor(connection, request, found, this.#settings().policy, call);
        const { parameters, range, capabilities, demand, mutable } = request;
        const spec = { name: request.name, range, parameters, source: inner, capabilities, topology: demand, mutable };
        if (Object.keys(mutable).length > 0) ability(connection, "modify");
        const volume = await this.#begin(connection, spec, call);
        return { ...volume, id: this.#handles.fresh("volume", name, volume.id), source: request.source, places };
      };
      return this.#locks.hold([lock], work, source && [lockKey(source)]);
    });
  }

  /** A creation that fails for good leaves nothing; what exists for another request stays. */
  async #begin(connection: Connection, spec: VolumeSpec, call: Call): Promise<Volume> {
    const { name } = connection;
    this.#begun.remember(spec.name, name, name);
    try {
      return await translated(connection, connection.driver.create(spec, call));
    } catch (error) {
      const exists = error instanceof CsiError && error.code === "already-exists";
      if (isFinal(error) && !exists) this.#begun.forget(spec.name, name);
      throw error;
    }
  }
}

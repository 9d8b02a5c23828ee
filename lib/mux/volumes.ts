import { type Capability, firstUnmet, type Segments } from "../core/access.ts";
import { type CapacityRange, wantedBytes } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import type { Context, Volume } from "../drivers/driver.ts";
import type { Condition } from "../health/condition-tracker.ts";
import { reasonText } from "../health/reasons.ts";
import { ability, asked } from "./ability.ts";
import { refuseUnmet, sourceOn, topologyOfNew } from "./admission.ts";
import type { Connection } from "./connection.ts";
import { fingerprint } from "./fingerprint.ts";
import type { FreeSpace } from "./free-space.ts";
import { lockKey, nameLock, volumeLock } from "./handles.ts";
import type { HealthMonitor } from "./health-monitor.ts";
import { MemberSelection } from "./member-selection.ts";
import type { WhenUnavailable } from "./refusals.ts";
import { type CreateRequest, type Creation, type RoutedVolume, routedVolume } from "./routed.ts";
import type { RouterContext } from "./router-context.ts";

/** The operations on one volume, in terms of handles: which connection, which lock, which place. */
export class Volumes {
  readonly #common: RouterContext;
  readonly #choice: MemberSelection;
  readonly #health: HealthMonitor;

  /** `space` tells how much is free on members of a group. */
  constructor(common: RouterContext, space: FreeSpace, health: HealthMonitor) {
    this.#common = common;
    this.#health = health;
    this.#choice = new MemberSelection(common, space);
  }

  /** CreateVolume. Topology is decided before anything is made; an equal volume that exists is returned. */
  async create(request: CreateRequest, call: Call): Promise<RoutedVolume> {
    const { single } = this.#common.settings();
    const named = request.parameters["connection"] || single;
    if (single !== undefined && named !== single)
      throw new CsiError(
        "failed-precondition",
        `the class names "${named}", but this driver is the connection "${single}" alone`,
      );
    if (!named) {
      throw new CsiError(
        "invalid-argument",
        'the class has no parameter "connection"; it must name a connection or a group',
      );
    }
    wantedBytes(request.range);
    const { breakers, groups, handles, jobs, locks } = this.#common;
    const source = request.source && handles.known(request.source.id, request.source.kind);
    if (breakers.of(named) && !(await groups.has(named))) await breakers.refuse(named);
    return jobs.run(`create ${named}/${request.name}`, fingerprint(request), call, async own => {
      const creation: Creation = { named, request, source, call: own };
      // A member of a group was there a moment ago, so its file is treated as that of an existing volume: repeat.
      if (await groups.has(named))
        return this.#choice.create(creation, member => this.#make(member, "retry", creation));
      return locks.hold([], () => this.#makeOn(creation), [nameLock(request.name)]);
    });
  }

  /** DeleteVolume. An id that csimux cannot have made does not exist, so it is gone (CSI DeleteVolume). */
  async delete(text: string, call: Call): Promise<void> {
    const handle = this.#common.handles.parse(text, "volume");
    if (!handle) return call.log.warn("deleted nothing: the id is not one of this driver", { volume: text });
    await this.#exclusively("delete", handle, "", call, async (connection, own) => {
      if (connection.retain) return own.log.info("volume left in place: deleteStrategy is retain", { volume: text });
      await this.#ask(connection, () => connection.driver.delete(handle.id, own));
      this.#common.attempts.forgetId(handle.id, handle.connection);
      this.#common.duplicates.deleted(handle);
      this.#health.forget(handle);
    });
  }

  /** ControllerGetVolume. */
  async get(text: string, call: Call): Promise<RoutedVolume> {
    const handle = this.#common.handles.known(text, "volume");
    return this.#common.connections.use(handle.connection, "retry", async connection =>
      routedVolume(this.#common.handles, connection, await this.#read(connection, handle.id, call)),
    );
  }

  /** ControllerGetVolumeHealth: what is wrong with the volume. Throws "not-found" for one that is not there, unless it is known to be lost or out of reach. */
  async health(text: string, call: Call): Promise<readonly Condition[]> {
    const handle = this.#common.handles.known(text, "volume");
    return this.#common.connections.use(handle.connection, "retry", async connection => {
      const conditions = await this.#health.volume(connection, handle.id, call);
      // What is lost or out of reach cannot be read, and is known all the same.
      const canRead = conditions.every(({ reason }) => reasonText(reason).severity === "degraded");
      if (canRead) await this.#read(connection, handle.id, call);
      return conditions;
    });
  }

  /**
   * What is wrong with a volume that exists, as the volume condition of CSI up to 1.12 tells it; undefined while its storage cannot
   * be looked at.
   */
  async condition(text: string, call: Call): Promise<readonly Condition[] | undefined> {
    const handle = this.#common.handles.known(text, "volume");
    try {
      return await this.#common.connections.use(handle.connection, "retry", connection =>
        this.#health.volume(connection, handle.id, call),
      );
    } catch (error) {
      if (error instanceof CsiError) return undefined;
      throw error;
    }
  }

  /**
   * ValidateVolumeCapabilities: the first reason why the volume cannot be used so, or not be one of a class with these
   * parameters; undefined when it can.
   */
  async validateCapabilities(
    text: string,
    capabilities: readonly Capability[],
    parameters: Context,
    call: Call,
  ): Promise<string | undefined> {
    const handle = this.#common.handles.known(text, "volume");
    const named = parameters["connection"];
    return this.#common.connections.use(handle.connection, "retry", async connection => {
      await this.#read(connection, handle.id, call);
      if (named && !(await this.#common.groups.leads(named, handle.connection)))
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
    const handle = this.#common.handles.known(text, "volume");
    return this.#exclusively("expand", handle, fingerprint([range, wanted]), call, (connection, own) => {
      if (wanted) refuseUnmet(connection, [wanted]);
      const growing = ability(connection, "expand");
      return notInUse(this.#ask(connection, () => growing.expand(handle.id, range, own)));
    });
  }

  /** ControllerModifyVolume. Throws "invalid-argument" for properties that cannot be changed. */
  modify(text: string, properties: Context, call: Call): Promise<void> {
    const handle = this.#common.handles.known(text, "volume");
    return this.#exclusively("modify", handle, fingerprint([properties]), call, (connection, own) => {
      const modifying = ability(connection, "modify");
      return this.#ask(connection, () => modifying.modify(handle.id, properties, own));
    });
  }

  #read(connection: Connection, id: string, call: Call): Promise<Volume> {
    const reading = ability(connection, "reading");
    return this.#common.breakers.ask(connection, () => reading.get(id, call));
  }

  #ask<T>(connection: Connection, question: () => Promise<T>): Promise<T> {
    return asked(this.#common.breakers, connection, question);
  }

  async #exclusively<T>(
    verb: "delete" | "expand" | "modify",
    handle: Handle,
    args: string,
    call: Call,
    work: (connection: Connection, own: Call) => Promise<T>,
  ): Promise<T> {
    const { breakers, connections, jobs, locks } = this.#common;
    // Not inside: a repeat would join a call that waits for the storage already.
    await breakers.refuse(handle.connection, verb === "delete");
    return jobs.run(`${verb} ${encodeHandle(handle)}`, args, call, own =>
      connections.use(handle.connection, "retry", connection =>
        locks.hold([lockKey(handle)], async () => work(connection, own)),
      ),
    );
  }

  /**
   * On the connection that the class names. When its file has gone since the volume was begun, nobody can tell what there is of
   * it, so the author of the class is not told that nothing was made.
   */
  #makeOn(creation: Creation): Promise<RoutedVolume> {
    const { named, request } = creation;
    const begun = this.#common.attempts.members(request.name, named).length > 0;
    return this.#make(named, begun ? "retry" : "refuse", creation);
  }

  #make(name: string, then: WhenUnavailable, creation: Creation): Promise<RoutedVolume> {
    const { connections, handles, locks } = this.#common;
    const { request, source } = creation;
    return connections.use(name, then, connection => {
      refuseUnmet(connection, request.capabilities);
      const inner = source && sourceOn(connection, source);
      const work = async (): Promise<RoutedVolume> => {
        const places = await this.#admit(connection, creation);
        const { parameters, range, mutable } = request;
        const spec = { name: request.name, range, parameters, source: inner, mutable };
        if (Object.keys(mutable).length > 0) ability(connection, "modify");
        const volume = await this.#begin(connection, creation, own => connection.driver.create(spec, own));
        return {
          ...volume,
          id: handles.encodeNew("volume", name, volume.id),
          source: request.source,
          accessibleTopology: places,
        };
      };
      return locks.hold([volumeLock(connection, request.name)], work, source && [lockKey(source)]);
    });
  }

  /** Where the volume will be; a connection that does not take it has nothing of it any more. */
  async #admit(connection: Connection, { named, request, call }: Creation): Promise<readonly Segments[]> {
    const { attempts: begun, lookup, settings } = this.#common;
    const isBegun = begun.members(request.name, named).includes(connection.name);
    try {
      return await topologyOfNew(connection, request, isBegun, settings().policy, lookup, call);
    } catch (error) {
      if (error instanceof CsiError && error.code === "resource-exhausted") begun.forget(request.name, connection.name);
      throw error;
    }
  }

  /** A creation that fails for good leaves nothing; what exists for another request stays. */
  async #begin(
    connection: Connection,
    { named, request, call }: Creation,
    make: (call: Call) => Promise<Volume>,
  ): Promise<Volume> {
    const { attempts: begun } = this.#common;
    const { name: member, driver } = connection;
    begun.remember(request.name, { named, member, id: driver.names?.idOf(request.name) });
    try {
      const volume = await this.#ask(connection, () => make(call));
      begun.remember(request.name, { named, member, id: volume.id });
      return volume;
    } catch (error) {
      const exists = error instanceof CsiError && error.code === "already-exists";
      if (isFinal(error) && !exists) begun.forget(request.name, member);
      throw error;
    }
  }
}

/**
 * The answer of an expansion. external-resizer takes "failed-precondition" for "in use" and asks no more while a pod uses the
 * volume, although what is missing may be a tool or a right; "unavailable" is repeated, and right for both.
 */
async function notInUse<T>(expanding: Promise<T>): Promise<T> {
  try {
    return await expanding;
  } catch (error) {
    if (!(error instanceof CsiError && error.code === "failed-precondition")) throw error;
    throw new CsiError("unavailable", error.message, { cause: error });
  }
}

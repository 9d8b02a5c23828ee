import { type Capability, firstUnmet, type Segments } from "../core/access.ts";
import { type CapacityRange, wantedBytes } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import { CsiError, hasCode } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import { mkfsContext } from "../core/mkfs-options.ts";
import { volumeName } from "../core/name.ts";
import type { Context, Volume, VolumeSpec } from "../drivers/driver.ts";
import type { Condition } from "../health/condition-tracker.ts";
import { reasonText } from "../health/reasons.ts";
import { adopted, giveUp, tenantOn } from "./claims/adoption.ts";
import type { Connection } from "./connection.ts";
import type { CreateRequest, RouterContext } from "./context.ts";
import type { MadeVolume } from "./copies.ts";
import { lockKey, nameLock, type RoutedVolume, volumeLock } from "./handles.ts";
import type { HealthMonitor } from "./health-monitor.ts";
import { fingerprint } from "./jobs.ts";
import { type Creation, MemberSelection, type Selection } from "./member-selection.ts";
import { ability, evaluateExisting, evaluatePlacement, notInUse, refuseGrowth, sourceOn } from "./placement.ts";
import type { WhenUnavailable } from "./unusable.ts";

/** What ValidateVolumeCapabilities asks. */
interface CapabilityQuestion {
  readonly id: string;
  readonly capabilities: readonly Capability[];
  readonly context: Context;
  readonly parameters: Context;
}

/**
 * The operations on one volume, in terms of handles. A change runs as a job, which holds the locks, leases the connection, and calls its
 * driver through StorageCalls; locks and lease end with the block that holds them.
 */
export class Volumes {
  readonly #context: RouterContext;
  readonly #health: HealthMonitor;
  readonly #selection: MemberSelection;

  constructor(context: RouterContext, health: HealthMonitor) {
    this.#context = context;
    this.#health = health;
    this.#selection = new MemberSelection(context);
  }

  /** CreateVolume. Topology is decided before anything is created; an equal volume that exists is returned. */
  async create(asked: CreateRequest, call: Call): Promise<RoutedVolume> {
    const named = this.#named(asked.parameters["connection"]);
    const request = { ...asked, name: volumeName(asked.name, asked.parameters) };
    wantedBytes(request.range);
    const { calls, groups, handles, jobs, locks } = this.#context;
    const source = request.source && handles.known(request.source.id, request.source.kind);
    const isGroup = await groups.asked(named);
    if (!isGroup && calls.isDoubted(named)) await calls.refuse(named);
    const name = [nameLock(request.name)];
    return jobs.run(`create ${named}/${request.name}`, fingerprint(request), call, async own => {
      // Volumes of one name may be created on several connections at once, unless a group is looking for the name.
      using held = isGroup ? locks.lock(name) : locks.lock([], name);
      const creation: Creation = { named, request, source, call: own, held };
      const known = await adopted(this.#context, creation);
      if (known) return known;
      return await (isGroup ? this.#inGroup(creation) : this.#on(named, "refuse", creation));
    });
  }

  /** DeleteVolume. An id that csimux cannot have created does not exist, so it is gone (CSI DeleteVolume). */
  async delete(text: string, call: Call): Promise<void> {
    const handle = this.#context.handles.parse(text, "volume");
    if (!handle) return call.log.warn("nothing to delete: not an id of this driver", { volume: text });
    await this.#change("delete", handle, "", call, async own => {
      using lease = await this.#context.connections.lease(handle.connection, "retry");
      const { connection } = lease;
      if (connection.retain) {
        await giveUp(this.#context, connection, handle, own);
        own.log.info("volume left in place: deleteStrategy is retain", { volume: text });
        return;
      }
      await this.#context.copies?.beforeDelete(connection, handle, own);
      await this.#context.calls.make(connection, () => connection.driver.delete(handle.id, own));
      this.#context.skipped.deleted(handle);
      this.#health.forget(handle);
    });
  }

  /** ControllerGetVolume. */
  async get(text: string, call: Call): Promise<RoutedVolume> {
    const { connections, handles } = this.#context;
    const handle = handles.known(text, "volume");
    using lease = await connections.lease(handle.connection, "retry");
    const volume = await this.#read(lease.connection, handle.id, call);
    return handles.volume(lease.connection, volume);
  }

  /** ControllerGetVolumeHealth. Throws "not-found" for a volume that does not exist, unless it is known to be lost or unreachable. */
  async health(text: string, call: Call): Promise<readonly Condition[]> {
    const handle = this.#context.handles.known(text, "volume");
    using lease = await this.#context.connections.lease(handle.connection, "retry");
    const conditions = await this.#health.volume(lease.connection, handle.id, call);
    // A lost or unreachable volume is known, although it cannot be read.
    const canRead = conditions.every(({ reason }) => reasonText(reason).severity === "degraded");
    if (canRead) await this.#read(lease.connection, handle.id, call);
    return conditions;
  }

  /** The volume condition of CSI up to 1.12, for a volume that exists; undefined while its storage system cannot be checked. */
  async condition(text: string, call: Call): Promise<readonly Condition[] | undefined> {
    const handle = this.#context.handles.known(text, "volume");
    try {
      using lease = await this.#context.connections.lease(handle.connection, "retry");
      return await this.#health.volume(lease.connection, handle.id, call);
    } catch (error) {
      if (error instanceof CsiError) return undefined;
      throw error;
    }
  }

  /**
   * ValidateVolumeCapabilities: the first reason why the volume cannot be used like this, with this context, or cannot be of a
   * class with these parameters; undefined if it can. An empty context is not checked: most callers send none.
   */
  async validateCapabilities(
    { id, capabilities, context, parameters }: CapabilityQuestion,
    call: Call,
  ): Promise<string | undefined> {
    const handle = this.#context.handles.known(id, "volume");
    const named = parameters["connection"];
    using lease = await this.#context.connections.lease(handle.connection, "retry");
    await this.#read(lease.connection, handle.id, call);
    if (named && !(await this.#context.groups.leads(named, handle.connection)))
      return `the parameters name "${named}", but the volume is on connection "${handle.connection}"`;
    if (Object.keys(context).length > 0 && !context["node_attach_driver"])
      return `the volume context lacks "node_attach_driver"; copy the context that the volume was created with (ListVolumes reports it)`;
    const unmet = firstUnmet(lease.connection.access, capabilities);
    return unmet;
  }

  /**
   * ControllerExpandVolume: the new size in bytes, and whether the node has work to do. Throws "invalid-argument" for a capability that
   * the volume does not have (CSI ControllerExpandVolume, "Exceeds capabilities").
   */
  async expand(
    text: string,
    range: CapacityRange,
    wanted: Capability | undefined,
    call: Call,
  ): Promise<{ readonly bytes: bigint; readonly onNode: boolean }> {
    wantedBytes(range);
    const handle = this.#context.handles.known(text, "volume");
    return this.#change("expand", handle, fingerprint([range, wanted]), call, async own => {
      using lease = await this.#context.connections.lease(handle.connection, "retry");
      if (wanted) refuseGrowth(lease.connection, wanted);
      const expansion = ability(lease.connection, "expand");
      return await notInUse(this.#context.calls.make(lease.connection, () => expansion.expand(handle.id, range, own)));
    });
  }

  /** ControllerModifyVolume. Throws "invalid-argument" for properties that cannot be changed. Succeeds without any. */
  modify(text: string, properties: Context, call: Call): Promise<void> {
    const handle = this.#context.handles.known(text, "volume");
    return this.#change("modify", handle, fingerprint([properties]), call, async own => {
      using lease = await this.#context.connections.lease(handle.connection, "retry");
      if (Object.keys(properties).length === 0) {
        await this.#read(lease.connection, handle.id, own);
        return;
      }
      const modification = ability(lease.connection, "modify");
      await this.#context.calls.make(lease.connection, () => modification.modify(handle.id, properties, own));
    });
  }

  #named(connection: string | undefined): string {
    const { single } = this.#context.settings();
    const named = connection || single;
    if (!named) {
      const text =
        'the parameters lack "connection"; the StorageClass, or the volume specification of Nomad, must name a connection or a group';
      throw new CsiError("invalid-argument", text);
    }
    if (single === undefined || named === single) return named;
    const message = `the class names "${named}", but this driver serves only the connection "${single}"`;
    throw new CsiError("failed-precondition", message);
  }

  #read(connection: Connection, id: string, call: Call): Promise<Volume> {
    const reading = ability(connection, "reading");
    return this.#context.calls.make(connection, () => reading.get(id, call));
  }

  /** Runs `work` as a job that holds the lock of the volume. */
  async #change<T>(
    verb: "delete" | "expand" | "modify",
    handle: Handle,
    args: string,
    call: Call,
    work: (own: Call) => Promise<T>,
  ): Promise<T> {
    const { calls, jobs, locks } = this.#context;
    // Before the job: a retry would join a call that already waits for the storage system.
    await calls.refuse(handle.connection, verb === "delete");
    return jobs.run(`${verb} ${encodeHandle(handle)}`, args, call, async own => {
      using _held = locks.lock([lockKey(handle)]);
      this.#context.copies?.refuseBusy(handle);
      return await work(own);
    });
  }

  /** Creates the volume on the first selected member that has room. */
  async #inGroup(creation: Creation): Promise<RoutedVolume> {
    let selection: Selection = await this.#selection.select(creation);
    const full: CsiError[] = [];
    for (;;) {
      const { members, skipped, failure, refusal, others } = selection;
      for (const member of members) {
        const volume = await this.#onMember(member, creation, full).catch(error => failure(member, error));
        if (volume) return this.#selection.created(creation, volume, skipped);
      }
      if (!others) throw refusal(full);
      selection = await others();
    }
  }

  /** The volume on a member; undefined, and one more in `full`, if the member has no room. */
  async #onMember(member: string, creation: Creation, full: CsiError[]): Promise<RoutedVolume | undefined> {
    try {
      return await this.#on(member, "retry", creation);
    } catch (error) {
      // Only this code proves that nothing was created.
      if (!hasCode(error, "resource-exhausted")) throw error;
      const text = "a member of the group is full, trying the next";
      creation.call.log.info(text, { connection: member, reason: error.message });
      full.push(error);
      return undefined;
    }
  }

  async #on(name: string, when: WhenUnavailable, creation: Creation): Promise<RoutedVolume> {
    const { connections, handles } = this.#context;
    const { request, source, held } = creation;
    using lease = await connections.lease(name, when);
    const { connection } = lease;
    const isCopy = source !== undefined && source.connection !== name;
    const inner = source && !isCopy ? sourceOn(connection, source) : undefined;
    held.add([volumeLock(connection, request.name)], source && [lockKey(source)]);
    const { parameters, range, mutable } = request;
    const forNodes = mkfsContext(parameters, connection.access, request.capabilities);
    const tenant = tenantOn(connection, creation);
    const spec = { name: request.name, range, parameters, source: inner, mutable, ...(tenant && { tenant }) };
    const made = isCopy
      ? await this.#copied(connection, source, spec, creation)
      : await this.#created(connection, spec, creation);
    const id = handles.encodeNew("volume", name, made.volume.id);
    const context = { ...made.volume.context, ...forNodes };
    return { ...made.volume, id, context, source: request.source, accessibleTopology: made.accessibleTopology };
  }

  async #created(connection: Connection, spec: VolumeSpec, { request, call }: Creation): Promise<MadeVolume> {
    const accessibleTopology = await this.#topology(connection, request, call);
    refuseMutable(connection, spec);
    const { calls } = this.#context;
    return { volume: await calls.create(connection, () => connection.driver.create(spec, call)), accessibleTopology };
  }

  /** The source is on another connection. */
  async #copied(
    connection: Connection,
    source: Handle,
    spec: VolumeSpec,
    { request, call }: Creation,
  ): Promise<MadeVolume> {
    const { copies, settings } = this.#context;
    ability(connection, "copyTarget");
    if (!copies) throw new CsiError("failed-precondition", "this process copies nothing between connections");
    refuseMutable(connection, spec);
    const origin = { kind: source.kind, handle: encodeHandle(source) };
    return copies.create(connection, source, { ...spec, origin }, request, settings().policy, call);
  }

  /**
   * Where the volume will be reachable from. Throws before anything is created if it must not be created here; then nothing is left
   * of an earlier, interrupted creation either. The caller holds the lock of the volume.
   */
  async #topology(connection: Connection, request: CreateRequest, call: Call): Promise<readonly Segments[]> {
    const { calls, settings } = this.#context;
    const { policy } = settings();
    let verdict = evaluatePlacement(connection, request, policy);
    if (verdict instanceof CsiError && (await calls.clear(connection, request.name, call)))
      verdict = evaluateExisting(connection, request, policy);
    if (verdict instanceof CsiError) throw verdict;
    return verdict.accessibleTopology;
  }
}

/** Throws "invalid-argument" if the connection cannot change what is to be changeable. */
function refuseMutable(connection: Connection, { mutable }: VolumeSpec): void {
  if (Object.keys(mutable).length > 0) ability(connection, "modify");
}

import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { encodeGroup, encodeHandle, type GroupHandle, type Handle, parseGroup } from "../core/handle.ts";
import type { BlockRanges, Context } from "../drivers/driver.ts";
import { type AccessibilityRequirements, accessibleTopologyFor } from "../topology/accessible-topology.ts";
import type { RouterContext } from "./context.ts";
import { lockKey, type RoutedGroupSnapshot, type RoutedSnapshot } from "./handles.ts";
import { fingerprint } from "./jobs.ts";
import { ability, refuseMisspelt } from "./placement.ts";

/** A requested snapshot of `volume`, a handle. */
export interface SnapshotRequest {
  readonly name: string;
  readonly volume: string;
  readonly parameters: Context;
  /** Where volumes created from it must be usable. */
  readonly accessibility: AccessibilityRequirements;
}

/** The operations on one snapshot, in terms of handles. */
export class Snapshots {
  readonly #context: RouterContext;

  constructor(context: RouterContext) {
    this.#context = context;
  }

  /**
   * CreateSnapshot; both ids of the answer are handles. Meanwhile others may read the volume, but not change it. Throws
   * "resource-exhausted" if volumes created from it could not be used where they must be (CSI CreateSnapshotRequest).
   */
  async create(request: SnapshotRequest, call: Call): Promise<RoutedSnapshot> {
    const { calls, connections, handles, jobs, locks, settings } = this.#context;
    const { name, volume, parameters, accessibility } = request;
    const source = handles.known(volume, "volume");
    await this.#refuseOther(parameters["connection"], source);
    await calls.refuse(source.connection);
    const key = `snapshot ${source.connection}/${name}`;
    return jobs.run(key, fingerprint(request), call, async own => {
      using _held = locks.lock([key], [lockKey(source)]);
      using lease = await connections.lease(source.connection, "retry");
      const { connection } = lease;
      refuseMisspelt(connection, "snapshot", parameters);
      const snapshots = ability(connection, "snapshots");
      // A snapshot has the topologies of its connection, whatever is preferred.
      const policy = { ...settings().policy, honourPreferred: "off" } as const;
      accessibleTopologyFor(connection.accessibleTopology, accessibility, policy);
      const made = await calls.create(connection, () => snapshots.create(name, source.id, parameters, own));
      const id = handles.encodeNew("snapshot", source.connection, made.id);
      return { ...handles.snapshot(connection, made), id, volumeId: volume };
    });
  }

  /** GetSnapshot. Throws "not-found". */
  async get(text: string, call: Call): Promise<RoutedSnapshot> {
    const { calls, connections, handles } = this.#context;
    const handle = handles.known(text, "snapshot");
    using lease = await connections.lease(handle.connection, "retry");
    const snapshots = ability(lease.connection, "snapshots");
    const found = await calls.make(lease.connection, () => snapshots.get(handle.id, call));
    return handles.snapshot(lease.connection, found);
  }

  /** DeleteSnapshot. An id that csimux cannot have created does not exist, so it is gone (CSI DeleteSnapshot). */
  async delete(text: string, call: Call): Promise<void> {
    const { calls, connections, handles, jobs, locks } = this.#context;
    const handle = handles.parse(text, "snapshot");
    if (!handle) return call.log.warn("nothing to delete: not an id of this driver", { snapshot: text });
    await calls.refuse(handle.connection);
    await jobs.run(`delete ${encodeHandle(handle)}`, "", call, async own => {
      using _held = locks.lock([lockKey(handle)]);
      using lease = await connections.lease(handle.connection, "retry");
      this.#context.copies?.refuseBusy(handle);
      const snapshots = ability(lease.connection, "snapshots");
      await calls.make(lease.connection, () => snapshots.delete(handle.id, own));
    });
  }

  /** A snapshot class may name the connection, or a group with that connection. */
  async #refuseOther(named: string | undefined, { connection }: Handle): Promise<void> {
    if (!named || (await this.#context.groups.leads(named, connection))) return;
    const text = `the snapshot class names "${named}", but the volume is on connection "${connection}"`;
    throw new CsiError("invalid-argument", text);
  }
}

/** Which blocks of a snapshot are wanted: all, or those that were changed since `base`; both are handles. */
export interface BlocksRequest {
  readonly snapshot: string;
  readonly base: string | undefined;
  /** The offset in bytes where the list begins. */
  readonly from: bigint;
}

/** Lists of the blocks of snapshots, in terms of handles. */
export class SnapshotMetadata {
  readonly #context: RouterContext;

  constructor(context: RouterContext) {
    this.#context = context;
  }

  /** Like SnapshotMetadataAbility.ranges. The connection stays open until the iteration ends. */
  async *ranges({ snapshot, base, from }: BlocksRequest, call: Call): AsyncGenerator<BlockRanges, void> {
    const { calls, connections, handles } = this.#context;
    const target = handles.known(snapshot, "snapshot");
    const earlier = base === undefined ? undefined : handles.known(base, "snapshot");
    if (earlier && earlier.connection !== target.connection)
      throw new CsiError("invalid-argument", `snapshots "${base}" and "${snapshot}" are not of one volume`);
    await calls.refuse(target.connection);
    using lease = await connections.lease(target.connection, "retry");
    const { name, driver } = lease.connection;
    if (!driver.snapshotMetadata) {
      const text = `connection "${name}" cannot list the blocks of snapshots; make a full backup`;
      throw new CsiError("failed-precondition", text);
    }
    const parts = driver.snapshotMetadata.ranges(target.id, earlier?.id, from, call)[Symbol.asyncIterator]();
    try {
      let next = await calls.make(lease.connection, () => parts.next());
      while (!next.done) {
        yield next.value;
        next = await parts.next();
      }
    } finally {
      await parts.return?.();
    }
  }
}

/** Snapshots of several volumes at one moment, in terms of handles. The volumes are on one connection. */
export class GroupSnapshots {
  readonly #context: RouterContext;

  constructor(context: RouterContext) {
    this.#context = context;
  }

  /**
   * CreateVolumeGroupSnapshot. Throws "failed-precondition" for volumes of several connections (CSI "Cannot snapshot multiple volumes
   * together").
   */
  async create(
    name: string,
    volumes: readonly string[],
    parameters: Context,
    call: Call,
  ): Promise<RoutedGroupSnapshot> {
    const { calls, connections, handles, jobs, locks } = this.#context;
    const sources = volumes.map(volume => handles.known(volume, "volume"));
    const only = onlyConnection(sources);
    const ids = sources.map(({ id }) => id);
    const key = `group snapshot ${only}/${name}`;
    await calls.refuse(only);
    return jobs.run(key, fingerprint([volumes, parameters]), call, async own => {
      using _held = locks.lock([key], sources.map(lockKey));
      using lease = await connections.lease(only, "retry");
      refuseMisspelt(lease.connection, "snapshot", parameters);
      const groups = ability(lease.connection, "groupSnapshots");
      const made = await calls.create(lease.connection, () => groups.create(name, ids, parameters, own));
      const group = handles.groupSnapshot(lease.connection, made);
      // As the request writes it, like CreateSnapshot: snapshot-controller looks for the PersistentVolume that has this id.
      const asked = new Map(sources.map((source, index) => [encodeHandle(source), volumes[index]]));
      const snapshots = group.snapshots.map(each => {
        const source = handles.parse(each.volumeId, "volume");
        return { ...each, volumeId: (source && asked.get(encodeHandle(source))) ?? each.volumeId };
      });
      return { ...group, snapshots };
    });
  }

  /** DeleteVolumeGroupSnapshot. An id that csimux cannot have created does not exist, so it is gone. */
  async delete(text: string, snapshots: readonly string[], call: Call): Promise<void> {
    const { calls, connections, jobs, locks } = this.#context;
    const group = parseGroup(text);
    if (!group) return call.log.warn("nothing to delete: not an id of this driver", { group: text });
    const ids = this.#inside(group, snapshots);
    await calls.refuse(group.connection);
    const keys = ids.map(id => lockKey({ kind: "snapshot", connection: group.connection, id }));
    await jobs.run(`delete ${encodeGroup(group)}`, fingerprint([ids]), call, async own => {
      using _held = locks.lock([`group snapshot with the id ${encodeGroup(group)}`, ...keys]);
      using lease = await connections.lease(group.connection, "retry");
      const groups = ability(lease.connection, "groupSnapshots");
      await calls.make(lease.connection, () => groups.delete(group.id, ids, own));
    });
  }

  /** GetVolumeGroupSnapshot. Throws "not-found". */
  async get(text: string, snapshots: readonly string[], call: Call): Promise<RoutedGroupSnapshot> {
    const { calls, connections, handles } = this.#context;
    const group = parseGroup(text);
    if (!group) throw new CsiError("not-found", `group snapshot "${text}" is not an id of this driver`);
    const ids = this.#inside(group, snapshots);
    using lease = await connections.lease(group.connection, "retry");
    const groups = ability(lease.connection, "groupSnapshots");
    const found = await calls.make(lease.connection, () => groups.get(group.id, ids, call));
    return handles.groupSnapshot(lease.connection, found);
  }

  /** The driver's ids of the snapshots. Throws "invalid-argument" for one that cannot be in the group. */
  #inside(group: GroupHandle, snapshots: readonly string[]): readonly string[] {
    return snapshots.map(text => {
      const handle = this.#context.handles.parse(text, "snapshot");
      if (handle?.connection === group.connection) return handle.id;
      throw new CsiError("invalid-argument", `snapshot "${text}" is not in the group "${encodeGroup(group)}"`);
    });
  }
}

function onlyConnection(sources: readonly Handle[]): string {
  const [first, ...others] = new Set(sources.map(({ connection }) => connection));
  if (first !== undefined && others.length === 0) return first;
  const text = `the volumes are on the connections ${[first, ...others].join(", ")}; a group snapshot is taken on one`;
  throw new CsiError("failed-precondition", text);
}

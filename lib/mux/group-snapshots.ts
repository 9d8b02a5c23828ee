import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { encodeGroup, type GroupHandle, type Handle, maxHandleBytes, parseGroup } from "../core/handle.ts";
import type { Context, GroupSnapshot, GroupSnapshotAbility } from "../drivers/driver.ts";
import { ability, asked } from "./ability.ts";
import type { Connection } from "./connection.ts";
import { fingerprint } from "./fingerprint.ts";
import { type Handles, lockKey } from "./handles.ts";
import { type RoutedSnapshot, routedSnapshot } from "./routed.ts";
import type { RouterContext } from "./router-context.ts";

/** A group snapshot as the outside sees it: all its ids are handles. */
export interface RoutedGroupSnapshot extends GroupSnapshot {
  readonly snapshots: readonly RoutedSnapshot[];
}

/** Snapshots of several volumes at one moment, in terms of handles. The volumes are on one connection. */
export class GroupSnapshots {
  readonly #common: RouterContext;

  constructor(common: RouterContext) {
    this.#common = common;
  }

  /** CreateVolumeGroupSnapshot. Throws "failed-precondition" for volumes of several connections (CSI "Cannot snapshot multiple volumes together"). */
  async create(
    name: string,
    volumes: readonly string[],
    parameters: Context,
    call: Call,
  ): Promise<RoutedGroupSnapshot> {
    const sources = volumes.map(volume => this.#common.handles.known(volume, "volume"));
    const connection = onlyOne(sources);
    const key = `group snapshot ${connection}/${name}`;
    await this.#common.breakers.refuse(connection);
    return this.#common.jobs.run(key, fingerprint([volumes, parameters]), call, own =>
      this.#common.connections.use(connection, "retry", opened =>
        this.#common.locks.hold(
          [key],
          async () => {
            const ids = sources.map(({ id }) => id);
            return routedGroupSnapshot(
              this.#common.handles,
              opened,
              await this.#ask(opened, groups => groups.create(name, ids, parameters, own)),
            );
          },
          sources.map(lockKey),
        ),
      ),
    );
  }

  /** DeleteVolumeGroupSnapshot. An id that csimux cannot have made does not exist, so it is gone. */
  async delete(text: string, snapshots: readonly string[], call: Call): Promise<void> {
    const group = parseGroup(text);
    if (!group) return call.log.warn("deleted nothing: the id is not one of this driver", { group: text });
    const ids = this.#inside(group, snapshots);
    await this.#common.breakers.refuse(group.connection);
    const { jobs, connections, locks } = this.#common;
    const keys = [
      `group snapshot with the id ${encodeGroup(group)}`,
      ...new Set(ids.map(id => lockKey({ kind: "snapshot", connection: group.connection, id }))),
    ];
    await jobs.run(`delete ${encodeGroup(group)}`, fingerprint([ids]), call, own =>
      connections.use(group.connection, "retry", opened =>
        locks.hold(keys, () => this.#ask(opened, groups => groups.delete(group.id, ids, own))),
      ),
    );
  }

  /** GetVolumeGroupSnapshot. Throws "not-found". */
  async get(text: string, snapshots: readonly string[], call: Call): Promise<RoutedGroupSnapshot> {
    const group = parseGroup(text);
    if (!group) throw new CsiError("not-found", `group snapshot "${text}" is not one of this driver`);
    const ids = this.#inside(group, snapshots);
    return this.#common.connections.use(group.connection, "retry", async opened =>
      routedGroupSnapshot(
        this.#common.handles,
        opened,
        await this.#ask(opened, groups => groups.get(group.id, ids, call)),
      ),
    );
  }

  #ask<T>(connection: Connection, question: (groups: GroupSnapshotAbility) => Promise<T>): Promise<T> {
    const groups = ability(connection, "groupSnapshots");
    return asked(this.#common.breakers, connection, () => question(groups));
  }

  /** The driver's ids of the snapshots. Throws "invalid-argument" for one that cannot be in the group. */
  #inside(group: GroupHandle, snapshots: readonly string[]): readonly string[] {
    return snapshots.map(text => {
      const handle = this.#common.handles.parse(text, "snapshot");
      if (handle?.connection === group.connection) return handle.id;
      throw new CsiError("invalid-argument", `snapshot "${text}" is not one of the group "${encodeGroup(group)}"`);
    });
  }
}

function onlyOne(sources: readonly Handle[]): string {
  const [first, ...others] = [...new Set(sources.map(({ connection }) => connection))];
  if (first !== undefined && others.length === 0) return first;
  const text = `the volumes are on the connections ${[first, ...others].join(", ")}; a group snapshot is taken on one`;
  throw new CsiError("failed-precondition", text);
}

function routedGroupSnapshot(handles: Handles, connection: Connection, group: GroupSnapshot): RoutedGroupSnapshot {
  const id = encodeGroup({ connection: connection.name, id: group.id });
  if (Buffer.byteLength(id) > maxHandleBytes)
    throw new CsiError(
      "internal",
      `connection "${connection.name}" made a group snapshot id that is too long: "${id}"`,
    );
  return {
    ...group,
    id,
    snapshots: group.snapshots.map(each => routedSnapshot(handles, connection, { ...each, group: group.id })),
  };
}

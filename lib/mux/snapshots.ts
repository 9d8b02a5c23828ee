import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import type { Locks } from "../core/locks.ts";
import type { Context, Snapshot } from "../drivers/driver.ts";
import { ability, translated } from "./ability.ts";
import type { Connections } from "./connections.ts";
import { fingerprint } from "./fingerprint.ts";
import type { Groups } from "./groups.ts";
import { type Handles, lockKey } from "./handles.ts";
import type { Jobs } from "./jobs.ts";
import { SnapshotNames } from "./snapshot-names.ts";

/** The operations on one snapshot, in terms of handles. */
export class Snapshots {
  readonly #connections: Connections;
  readonly #groups: Groups;
  readonly #handles: Handles;
  readonly #locks: Locks;
  readonly #jobs: Jobs;
  readonly #names = new SnapshotNames();

  constructor(connections: Connections, groups: Groups, handles: Handles, locks: Locks, jobs: Jobs) {
    this.#connections = connections;
    this.#groups = groups;
    this.#handles = handles;
    this.#locks = locks;
    this.#jobs = jobs;
  }

  /** CreateSnapshot; both ids of the answer are handles. The volume may be read by others meanwhile, not changed. */
  async create(name: string, volume: string, parameters: Context, call: Call): Promise<Snapshot> {
    const source = this.#handles.known(volume, "volume");
    await this.#refuseOther(parameters["connection"], source);
    const args = fingerprint([volume, parameters]);
    const made = await this.#jobs.run(`snapshot ${source.connection}/${name}`, args, call, own =>
      this.#locks.hold([`snapshot name ${name}`], () => this.#make(name, source, parameters, own), [lockKey(source)]),
    );
    return { ...made, volumeId: volume };
  }

  /** DeleteSnapshot. An id that csimux cannot have made does not exist, so it is gone (CSI DeleteSnapshot). */
  async delete(text: string, call: Call): Promise<void> {
    const handle = this.#handles.parse(text, "snapshot");
    if (!handle) return call.log.warn("deleted nothing: the id is not one of this driver", { snapshot: text });
    await this.#jobs.run(`delete ${text}`, "", call, own =>
      this.#connections.use(handle.connection, "handle", connection =>
        this.#locks.hold([lockKey(handle)], () =>
          translated(connection, ability(connection, "snapshots").delete(handle.id, own)),
        ),
      ),
    );
  }

  async #make(name: string, source: Handle, parameters: Context, call: Call): Promise<Snapshot> {
    const { connection: from } = source;
    await this.#refuseTaken(name, from, call);
    return this.#connections.use(from, "handle", async connection => {
      const snapshots = ability(connection, "snapshots");
      const made = await translated(connection, snapshots.create(name, source.id, parameters, call));
      this.#names.remember(name, { kind: "snapshot", connection: from, id: made.id });
      return { ...made, id: this.#handles.fresh("snapshot", from, made.id) };
    });
  }

  /** A snapshot class may name the connection, or a group that it belongs to. */
  async #refuseOther(named: string | undefined, { connection }: Handle): Promise<void> {
    if (!named || (await this.#groups.leads(named, connection))) return;
    throw new CsiError(
      "invalid-argument",
      `the snapshot class names "${named}", but the volume is on connection "${connection}"`,
    );
  }

  /** Throws "already-exists" when the name belongs to a snapshot of another connection that is still there. */
  async #refuseTaken(name: string, connection: string, call: Call): Promise<void> {
    const other = this.#names.elsewhere(name, connection);
    if (!other) return;
    const found = await this.#connections
      .use(
        other.connection,
        "handle",
        ({ driver }) => driver.snapshots?.get(other.id, call) ?? Promise.resolve(undefined),
      )
      .catch(() => undefined);
    if (found) throw new CsiError("already-exists", `snapshot "${name}" exists on connection "${other.connection}"`);
  }
}

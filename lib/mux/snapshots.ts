import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Locks } from "../core/locks.ts";
import type { Context, Snapshot } from "../drivers/driver.ts";
import { ability, translated } from "./ability.ts";
import type { Connections } from "./connections.ts";
import { type Handles, lockKey } from "./handles.ts";
import type { Jobs } from "./jobs.ts";

/** The operations on one snapshot, in terms of handles. */
export class Snapshots {
  readonly #connections: Connections;
  readonly #handles: Handles;
  readonly #locks: Locks;
  readonly #jobs: Jobs;

  constructor(connections: Connections, handles: Handles, locks: Locks, jobs: Jobs) {
    this.#connections = connections;
    this.#handles = handles;
    this.#locks = locks;
    this.#jobs = jobs;
  }

  /** CreateSnapshot; both ids of the answer are handles. The volume may be read by others meanwhile, not changed. */
  async create(name: string, volume: string, parameters: Context, call: Call): Promise<Snapshot> {
    const source = this.#handles.known(volume, "volume");
    const { connection: from } = source;
    const named = parameters["connection"];
    if (named && named !== from) {
      throw new CsiError(
        "invalid-argument",
        `the snapshot class names connection "${named}", but volume "${volume}" is on "${from}"`,
      );
    }
    const args = JSON.stringify([volume, parameters]);
    return this.#jobs.run(`snapshot ${from}/${name}`, args, call, own =>
      this.#connections.use(from, "handle", connection => {
        const work = async () => {
          const made = await translated(
            connection,
            ability(connection, "snapshots").create(name, source.id, parameters, own),
          );
          return { ...made, id: this.#handles.fresh("snapshot", from, made.id), volumeId: volume };
        };
        return this.#locks.hold([`snapshot name ${from}/${name}`], work, [lockKey(source)]);
      }),
    );
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
}

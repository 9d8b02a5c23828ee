import { discardedName, isDiscarded, isTemporary } from "../../zfs/names.ts";
import { type Destruction, ZfsError } from "../../zfs/zfs.ts";
import { isMissing } from "../api-error.ts";
import type { Api } from "../client.ts";
import { snapshotService, withSnapshotResources } from "./queries.ts";
import type { Reading } from "./reading.ts";
import { whyNot, zfsError } from "./words.ts";

/**
 * Removing datasets and snapshots. Nothing is ever removed recursively by the server: on TrueNAS 26 that takes the clones of
 * snapshots along, which are other volumes, and answers with success when it failed.
 */
export class Removal {
  readonly #api: Api;
  readonly #reading: Reading;

  constructor(api: Api, reading: Reading) {
    this.#api = api;
    this.#reading = reading;
  }

  /** As Zfs.destroy. */
  async destroy(name: string, how: Destruction, signal: AbortSignal): Promise<void> {
    const { recursive, deferred, snapshots = [] } = how;
    if (name.includes("@")) return this.#snapshot(name, deferred === true, signal);
    try {
      await this.#dataset(name, signal);
    } catch (error) {
      // Most have no snapshots; of the others each is looked at.
      const refused = error instanceof ZfsError && error.failure !== "busy" && error.failure !== "incomplete";
      if (!refused || !(recursive || snapshots.length > 0)) throw error;
      if (recursive) await this.#snapshots(name, signal);
      for (const each of snapshots) await this.#snapshot(`${name}@${each}`, false, signal);
      await this.#dataset(name, signal);
    }
  }

  async #snapshots(dataset: string, signal: AbortSignal): Promise<void> {
    const below = await this.#reading.below(
      dataset,
      ["filesystem", "volume", "snapshot"],
      ["type", "clones"],
      1,
      signal,
    );
    const child = below.find(({ name }) => !name.includes("@") && name !== dataset);
    if (child) throw new ZfsError("dependents", `${dataset} has the child ${child.name}`);
    const cloned = below.find(({ properties }) => properties.has("clones"));
    if (cloned)
      throw new ZfsError("dependents", `${cloned.name} has the clone ${cloned.properties.get("clones")?.value}`);
    for (const { name } of below.filter(each => each.name.includes("@"))) await this.#snapshot(name, false, signal);
  }

  async #snapshot(name: string, defer: boolean, signal: AbortSignal): Promise<void> {
    const { number } = await this.#api.version(signal);
    if (number < withSnapshotResources)
      return this.#gone(`${snapshotService(number)}.delete`, [name, { defer }], signal);
    await this.#gone("zfs.resource.snapshot.destroy", [{ path: name, defer }], signal);
    if (defer) await this.#discarded(name, signal);
  }

  /** 26 does not tell that the destruction of a snapshot waits for its clones, so its name tells it. */
  async #discarded(name: string, signal: AbortSignal): Promise<void> {
    const waiting = await this.#reading.one(name, ["guid"], signal);
    const [dataset = "", own = ""] = name.split("@");
    if (!waiting || isTemporary(own) || isDiscarded(name)) return;
    const to = `${dataset}@${discardedName(waiting.properties.get("guid")?.value ?? "")}`;
    await this.#gone("zfs.resource.snapshot.rename", [{ current_name: name, new_name: to }], signal);
  }

  async #dataset(name: string, signal: AbortSignal): Promise<void> {
    const { number } = await this.#api.version(signal);
    const [method, params] =
      number >= withSnapshotResources
        ? (["zfs.resource.destroy", [{ path: name, recursive: false }]] as const)
        : (["pool.dataset.delete", [name, { recursive: false, force: true }]] as const);
    await this.#gone(method, params, signal);
    // The answer alone proves nothing.
    if (await this.#reading.one(name, ["type"], signal))
      throw new ZfsError("busy", `${name} is still there after ${method}`);
  }

  async #gone(method: string, params: readonly unknown[], signal: AbortSignal): Promise<void> {
    try {
      await this.#api.call(method, params, signal);
    } catch (error) {
      if (!isMissing(error) && whyNot(error) !== "absent") throw zfsError(error);
    }
  }
}

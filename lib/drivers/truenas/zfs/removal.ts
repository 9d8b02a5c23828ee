import { discardedName, isDiscarded, isTemporary } from "../../zfs/names.ts";
import { type DestroyOptions, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { isMissing } from "../api-error.ts";
import { snapshotService, whyNot, withSnapshotResources, zfsError } from "./queries.ts";
import type { DatasetReader } from "./reading.ts";

/**
 * Destroys datasets and snapshots. Never recursively on the server: TrueNAS 26 would also destroy the clones of snapshots, which are
 * other volumes, and reports success if it fails.
 */
export class DatasetRemover {
  readonly #api: Api;
  readonly #reading: DatasetReader;

  constructor(api: Api, reading: DatasetReader) {
    this.#api = api;
    this.#reading = reading;
  }

  /** As Zfs.destroy. Snapshots first: the server refuses a dataset with snapshots only after it has deleted the shares (25.10). */
  async destroy(name: string, { deferred, snapshots = [] }: DestroyOptions, signal: AbortSignal): Promise<void> {
    if (name.includes("@")) return this.#snapshot(name, deferred === true, signal);
    for (const each of snapshots) await this.#snapshot(`${name}@${each}`, false, signal);
    await this.#dataset(name, signal);
  }

  /** Destroys a copy that csimux made for itself, with its snapshots. */
  async copy(dataset: string, signal: AbortSignal): Promise<void> {
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
    const snapshots = below.flatMap(({ name }) => (name.includes("@") ? [name.slice(name.indexOf("@") + 1)] : []));
    await this.destroy(dataset, { snapshots }, signal);
  }

  async #snapshot(name: string, defer: boolean, signal: AbortSignal): Promise<void> {
    const { number } = await this.#api.version(signal);
    if (number < withSnapshotResources)
      return this.#gone(`${snapshotService(number)}.delete`, [name, { defer }], signal);
    await this.#gone("zfs.resource.snapshot.destroy", [{ path: name, defer }], signal);
    if (defer) await this.#discarded(name, signal);
  }

  /** Renames a snapshot whose destruction is deferred, because 26 does not answer that it is. */
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
    // Up to 25.10 the answer follows the exit code of zfs destroy (plugins/zfs_/dataset.py); the one of 26 proves nothing.
    if (number < withSnapshotResources) return;
    if (await this.#reading.one(name, ["type"], signal))
      throw new ZfsError("busy", `${name} still exists after ${method}`);
  }

  async #gone(method: string, params: readonly unknown[], signal: AbortSignal): Promise<void> {
    try {
      await this.#api.call(method, params, signal);
    } catch (error) {
      if (!isMissing(error) && whyNot(error) !== "absent") throw zfsError(error);
    }
  }
}

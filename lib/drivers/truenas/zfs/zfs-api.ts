import { jsonSize } from "../../sizes.ts";
import { isStaging, stagingOf } from "../../zfs/names.ts";
import {
  type CloneOrigin,
  type Copy,
  type CreationResult,
  type DestroyOptions,
  type Entries,
  type Entry,
  type Inspected,
  type NewDataset,
  type Permissions,
  type PropertyQuery,
  type SnapshotsOfName,
  type Zfs,
  ZfsError,
} from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { copied, moved, renameFinished } from "./copy.ts";
import { marked, usableProved, whyNotRenamed } from "./keys.ts";
import { permitted } from "./permissions.ts";
import {
  ofVersion,
  otherVersion,
  poolStates,
  snapshotService,
  systemOf,
  whyNot,
  withRename,
  withResources,
  withSnapshotResources,
  zfsError,
} from "./queries.ts";
import { type DatasetApi, DatasetReader } from "./reading.ts";
import { copyDestroyed, destroyed, leftDestroyed, nameFreed, proven, renamedWith, sharesTaken } from "./removal.ts";
import { createdEntry, takenEntry } from "./rows.ts";
import { SnapshotNames } from "./snapshot-names.ts";
import { snapshotChanges, taken } from "./snapshots.ts";
import { takenAfresh } from "./temporary.ts";
import { type ApiValues, apiValues, asChanges, changeable, creation, unsettable, wholeSize } from "./values.ts";

/** The pools of a TrueNAS system, through its API. Only this folder interprets what the server answers about datasets. */
export class ZfsApi implements Zfs, DatasetApi {
  readonly snapshotsTogether = false;
  readonly api: Api;
  readonly reading: DatasetReader;
  readonly proveUsable: NonNullable<Zfs["proveUsable"]> = (...asked) =>
    usableProved(this, this.#shareType === "SMB", ...asked);
  readonly whyNotRenamed: NonNullable<Zfs["whyNotRenamed"]> = (...asked) => whyNotRenamed(this, ...asked);
  readonly #shareType: "GENERIC" | "SMB";
  #names: SnapshotNames | undefined;

  /** `shareType`: the use of new file systems; for SMB they get case-insensitive names and NFSv4 access control lists. */
  constructor(api: Api, shareType: "GENERIC" | "SMB") {
    this.api = api;
    this.reading = new DatasetReader(api);
    this.#shareType = shareType;
  }

  get fixed(): ReadonlySet<string> {
    return unsettable;
  }

  read(query: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    return this.reading.read(query, signal);
  }

  below(...asked: Parameters<Zfs["below"]>): Promise<readonly Entry[]> {
    return this.reading.below(...asked);
  }

  family(dataset: string, query: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    return this.reading.family(dataset, query, signal);
  }

  destroy(name: string, how: DestroyOptions, signal: AbortSignal): Promise<void> {
    return destroyed(this, name, how, signal);
  }

  takesShares(...asked: Parameters<NonNullable<Zfs["takesShares"]>>): Promise<boolean> {
    return sharesTaken(this, ...asked);
  }

  /** The API refuses to answer the version of a system that is too old. */
  async ready(signal: AbortSignal): Promise<void> {
    await this.api.version(signal);
  }

  snapshotsNamed(...asked: Parameters<Zfs["snapshotsNamed"]>): Promise<SnapshotsOfName> {
    this.#names ??= new SnapshotNames(this.reading);
    return this.#names.of(...asked);
  }

  async create(
    dataset: NewDataset,
    parents: boolean,
    query: PropertyQuery,
    signal: AbortSignal,
  ): Promise<CreationResult> {
    const make = async () => {
      const request = creation(dataset, parents, this.#shareType, await this.#version(signal));
      return createdEntry(await marked(this.api, dataset, request, signal), query.properties, dataset.values);
    };
    const result = await this.#created(dataset.name, make, dataset.permissions, query, signal);
    if (!result.made || dataset.volsize === undefined) return result;
    // From 25.10 on a target is named after the guid of its zvol, which this answer does not have.
    const isNamed = (await this.#version(signal)) >= withResources;
    return isNamed ? { ...result, entries: await this.read(query, signal) } : result;
  }

  /** In one visible step: the request of 26 has no user properties, so there the clone gets its name last. */
  async clone(
    dataset: NewDataset,
    { snapshot, temporary }: CloneOrigin,
    query: PropertyQuery,
    signal: AbortSignal,
  ): Promise<CreationResult> {
    if (temporary) await takenAfresh(this, dataset, snapshot, signal);
    const system = await systemOf(this.api, signal);
    const aside = system.version >= withSnapshotResources;
    const make = () =>
      ofVersion(system, () =>
        aside ? this.#cloneAside(dataset, snapshot, signal) : this.#clone(dataset, snapshot, signal),
      ).catch(async (error: unknown) => {
        const isGone = temporary && whyNot(error) === "absent" && !(await this.#orphan(dataset.name, signal));
        throw isGone ? new ZfsError("changed", `another call has destroyed ${snapshot}`, { cause: error }) : error;
      });
    const drop = temporary ? () => this.destroy(snapshot, { deferred: true }, signal) : undefined;
    return this.#created(dataset.name, make, dataset.permissions, query, signal, drop);
  }

  freeName(snapshot: string, signal: AbortSignal): Promise<void> {
    return nameFreed(this, snapshot, signal);
  }

  async set(...[name, values, signal, of = {}]: Parameters<Zfs["set"]>): Promise<void> {
    const { fields, user } = apiValues(values);
    const { refreservation, ...others } = fields;
    const isSplit = refreservation !== undefined && others["refquota"] !== undefined;
    await proven(this, name, of, signal);
    if (name.includes("@")) return this.#setSnapshot(name, user, signal);
    if (!isSplit) return this.#change(name, fields, user, signal);
    await this.#change(name, { refreservation }, {}, signal);
    await proven(this, name, of, signal);
    await this.#change(name, others, user, signal);
  }

  async permit(name: string, permissions: Permissions, signal: AbortSignal): Promise<void> {
    const path = (await this.reading.one(name, ["mountpoint"], signal))?.properties.get("mountpoint")?.value;
    await permitted(this.api, path?.startsWith("/mnt/") ? path : `/mnt/${name}`, permissions, signal);
  }

  async snapshot(
    [name, ...more]: readonly [string, ...string[]],
    values: Readonly<Record<string, string>>,
    query: PropertyQuery,
    signal: AbortSignal,
  ): Promise<CreationResult> {
    if (more.length > 0)
      throw new ZfsError("invalid", "TrueNAS cannot take snapshots of several volumes at one moment");
    const take = async () => takenEntry(await taken(this.api, name, values, signal), query.properties, values);
    return this.#created(name, take, undefined, query, signal);
  }

  families(names: readonly string[], properties: readonly string[], signal: AbortSignal): Promise<Entries> {
    return this.reading.families(names, properties, signal);
  }

  rename(...[from, to, signal, how]: Parameters<Zfs["rename"]>): Promise<void> {
    const rename = (of: Inspected = {}) => this.#rename(from, to, of, signal);
    return how && "before" in how ? renamedWith(this, rename, from, to, how, signal) : rename(how);
  }

  async #rename(from: string, to: string, of: Inspected, signal: AbortSignal): Promise<void> {
    const { number, text } = await this.api.version(signal);
    if (number < withRename && !isStaging(from))
      throw new ZfsError("invalid", `renaming a dataset needs TrueNAS 25.10 or newer, and this is ${text}`);
    if (number >= withRename) {
      await proven(this, from, of, signal);
      await this.#done("pool.dataset.rename", [from, { new_name: to, recursive: false, force: true }], signal);
    } else if (!(await moved(this, from, to, signal))) throw new ZfsError("absent", `${from} does not exist`);
  }

  finishRename(...asked: Parameters<NonNullable<Zfs["finishRename"]>>): Promise<boolean> {
    return renameFinished(this, ...asked);
  }

  /** Does nothing: TrueNAS mounts the datasets that it creates. */
  async mount(): Promise<void> {}

  pools(names: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    return poolStates(this.api, names, signal);
  }

  copy(copy: Copy, signal: AbortSignal): Promise<string> {
    return copied(this, copy, signal);
  }

  async #version(signal: AbortSignal): Promise<number> {
    return (await this.api.version(signal)).number;
  }

  #done(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    return this.api.call(method, params, signal).catch((error: unknown) => {
      throw zfsError(error);
    });
  }

  /**
   * Creates something unless it exists. What a refusal means is decided by what exists, because each version words it differently. `make`
   * can answer the new entry, which saves reading it. `after` runs once the object exists, before it is read: nothing is asked after that.
   */
  async #created(
    name: string,
    make: () => Promise<Entry | undefined>,
    permissions: Permissions | undefined,
    query: PropertyQuery,
    signal: AbortSignal,
    after: () => Promise<void> = async () => {},
  ): Promise<CreationResult> {
    const seen = async () => {
      await after();
      return this.read(query, signal);
    };
    let fresh: Entry | undefined;
    try {
      fresh = await make();
    } catch (error) {
      const failure = whyNot(error);
      if (failure === undefined || failure === "full") throw zfsError(error);
      if (!(await this.reading.one(name, ["type"], signal)))
        // The server's own words about what it has refused say more than that the parent does not exist yet.
        throw (failure === "invalid" ? undefined : await this.#orphan(name, signal)) ?? zfsError(error);
      return { made: false, entries: await seen() };
    }
    if (permissions) await this.permit(name, permissions, signal);
    return { made: true, entries: fresh?.name === name ? new Map([[name, fresh]]) : await seen() };
  }

  async #orphan(name: string, signal: AbortSignal): Promise<ZfsError | undefined> {
    const above = name.slice(0, Math.max(0, name.search(/[@/][^@/]*$/)));
    if (above === "" || (await this.reading.one(above, ["type"], signal))) return undefined;
    return new ZfsError("absent", `${above} does not exist`);
  }

  async #change(name: string, all: ApiValues["fields"], user: ApiValues["user"], signal: AbortSignal): Promise<void> {
    const fields = await this.#reserved(name, changeable(all), signal);
    const size = "volsize" in fields ? { force_size: true } : {};
    const changes = asChanges(user);
    // CORE refuses this field even if it is empty.
    const more = changes.length > 0 ? { user_properties_update: changes } : {};
    if (Object.keys(fields).length === 0 && changes.length === 0) return;
    await this.#done("pool.dataset.update", [name, { ...fields, ...size, ...more }], signal);
  }

  /** Replaces the reservation of the whole size by the size in bytes, because the API has no value for it. */
  async #reserved(name: string, fields: ApiValues["fields"], signal: AbortSignal) {
    if (fields["refreservation"] !== wholeSize) return fields;
    const volsize =
      fields["volsize"] ??
      Number((await this.reading.one(name, ["volsize"], signal))?.properties.get("volsize")?.value);
    return { ...fields, refreservation: volsize };
  }

  async #clone({ name, volsize, values }: NewDataset, snapshot: string, signal: AbortSignal): Promise<undefined> {
    const size = volsize === undefined ? {} : { volsize: String(volsize) };
    const request = { snapshot, dataset_dst: name, dataset_properties: { ...values, ...size } };
    await this.api.call(`${snapshotService(await this.#version(signal))}.clone`, [request], signal);
  }

  /** The clone has another name until it has its properties; the rest of an interrupted copy has it, too, and goes first. */
  async #cloneAside({ name, volsize, values }: NewDataset, snapshot: string, signal: AbortSignal): Promise<undefined> {
    const staging = stagingOf(name);
    const clone = () => this.api.call("pool.snapshot.clone", [{ snapshot, dataset_dst: staging }], signal);
    await clone().catch(async (error: unknown) => {
      if (whyNot(error) !== "exists") throw error;
      await leftDestroyed(this, staging, snapshot, signal);
      await clone();
    });
    const { fields, user } = apiValues(values);
    const size = volsize === undefined ? {} : { volsize: jsonSize(volsize), force_size: true };
    await this.#change(staging, { ...fields, ...size }, user, signal);
    await this.rename(staging, name, signal).catch(async (error: unknown) => {
      // Another controller has made the volume meanwhile.
      if (whyNot(error) === "exists") await copyDestroyed(this, staging, signal);
      throw error;
    });
  }

  async #setSnapshot(name: string, user: ApiValues["user"], signal: AbortSignal): Promise<void> {
    const version = await this.#version(signal);
    if (version >= withSnapshotResources)
      throw new ZfsError("invalid", "TrueNAS 26 does not change the properties of a snapshot");
    await this.#done(`${snapshotService(version)}.update`, [name, snapshotChanges(user, version)], signal);
    // 26 answers this request as done, and changes nothing.
    if ((await this.#version(signal)) >= withSnapshotResources) throw otherVersion(this.api);
  }
}

import { jsonSize } from "../../sizes.ts";
import { isStaging, stagingOf } from "../../zfs/names.ts";
import {
  type CloneOrigin,
  type Copy,
  type Creation,
  type DatasetType,
  type DestroyOptions,
  type Entries,
  type Entry,
  type NewDataset,
  type Permissions,
  type PropertyQuery,
  type SnapshotName,
  type SnapshotsOfName,
  type Values,
  type Zfs,
  ZfsError,
} from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { type CopyTools, copied, moved } from "./copy.ts";
import { permitted } from "./permissions.ts";
import {
  ofVersion,
  otherVersion,
  poolStates,
  snapshotService,
  whyNot,
  withResources,
  withSnapshotResources,
  zfsError,
} from "./queries.ts";
import { DatasetReader } from "./reading.ts";
import { DatasetRemover } from "./removal.ts";
import { createdEntry } from "./rows.ts";
import { ensured, taken } from "./snapshots.ts";
import { apiValues, asChanges, changeable, creation, unsettable, wholeSize } from "./values.ts";

/** The first version that can rename a dataset. */
const withRename = 2510;

const parentOf = (name: string): string => name.slice(0, Math.max(0, name.lastIndexOf("/")));

/** The pools of a TrueNAS system, through its API. Only this folder interprets what the server answers about datasets. */
export class ZfsApi implements Zfs {
  readonly snapshotsTogether = false;
  readonly fixed = unsettable;
  readonly #api: Api;
  readonly #reading: DatasetReader;
  readonly #removal: DatasetRemover;
  readonly #shareType: "GENERIC" | "SMB";

  /** `shareType`: the use of new file systems; for SMB they get case-insensitive names and NFSv4 access control lists. */
  constructor(api: Api, shareType: "GENERIC" | "SMB") {
    this.#api = api;
    this.#reading = new DatasetReader(api);
    this.#removal = new DatasetRemover(api, this.#reading);
    this.#shareType = shareType;
  }

  /** As Zfs.ready: the API refuses to answer the version of a system that is too old. */
  async ready(signal: AbortSignal): Promise<void> {
    await this.#api.version(signal);
  }

  read(query: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    return this.#reading.read(query, signal);
  }

  below(
    parent: string,
    types: readonly DatasetType[],
    properties: readonly string[],
    depth: 1 | 2,
    signal: AbortSignal,
  ): Promise<readonly Entry[]> {
    return this.#reading.below(parent, types, properties, depth, signal);
  }

  family(dataset: string, query: PropertyQuery, signal: AbortSignal): Promise<Entries> {
    return this.#reading.family(dataset, query, signal);
  }

  async namesakes(
    { name, parent, copies }: SnapshotName,
    query: PropertyQuery,
    signal: AbortSignal,
  ): Promise<SnapshotsOfName> {
    const [holders, below, entries] = await Promise.all([
      this.#reading.holders(parent, name, signal),
      copies === undefined ? [] : this.#reading.datasetsBelow(copies, query.names, signal),
      this.#reading.read(query, signal),
    ]);
    return { holders, copies: below.filter(each => each.endsWith(`/${name}`)), entries };
  }

  async create(dataset: NewDataset, parents: boolean, query: PropertyQuery, signal: AbortSignal): Promise<Creation> {
    const { name, permissions } = dataset;
    const make = async () => {
      const row = await this.#api.call("pool.dataset.create", [creation(dataset, parents, this.#shareType)], signal);
      return createdEntry(row, query.properties, dataset.values);
    };
    const made = await this.#made(name, make, permissions, query, signal);
    if (!made.made || dataset.volsize === undefined) return made;
    // From 25.10 on a target is named after the guid of its zvol, which this answer does not have.
    const { number } = await this.#api.version(signal);
    return number < withResources ? made : { ...made, entries: await this.read(query, signal) };
  }

  /**
   * As Zfs.clone, in one visible step: up to 25.10 the request has all properties; the one of 26 has no user properties, so there the clone
   * gets its name last.
   */
  async clone(dataset: NewDataset, origin: CloneOrigin, query: PropertyQuery, signal: AbortSignal): Promise<Creation> {
    const { name, permissions } = dataset;
    const source = () => this.#reading.one(origin.snapshot, ["type"], signal);
    if (origin.temporary) await ensured(this.#api, origin.snapshot, source, signal);
    const { number } = await this.#api.version(signal);
    const clone = () =>
      number >= withSnapshotResources
        ? this.#clonedAside(dataset, origin, signal)
        : this.#cloned(dataset, origin, signal);
    const make = () => ofVersion(this.#api, number, clone, signal);
    const drop = () => this.#removal.destroy(origin.snapshot, { deferred: true }, signal);
    return this.#made(name, make, permissions, query, signal, origin.temporary ? drop : undefined);
  }

  async set(name: string, values: Values, signal: AbortSignal): Promise<void> {
    const { fields, user } = apiValues(values);
    const { number } = await this.#api.version(signal);
    if (name.includes("@")) return this.#setSnapshot(name, user, number, signal);
    await this.#changed(name, fields, user, signal);
  }

  async permit(name: string, permissions: Permissions, signal: AbortSignal): Promise<void> {
    await permitted(this.#api, await this.#mountpoint(name, signal), permissions, signal);
  }

  async snapshot(
    names: readonly [string, ...string[]],
    values: Readonly<Record<string, string>>,
    query: PropertyQuery,
    signal: AbortSignal,
  ): Promise<Creation> {
    const [name, ...more] = names;
    if (more.length > 0)
      throw new ZfsError("invalid", "TrueNAS cannot take snapshots of several volumes at one moment");
    const take = async () => createdEntry(await taken(this.#api, name, values, signal), query.properties, values);
    return this.#made(name, take, undefined, query, signal);
  }

  destroy(name: string, how: DestroyOptions, signal: AbortSignal): Promise<void> {
    return this.#removal.destroy(name, how, signal);
  }

  async rename(from: string, to: string, signal: AbortSignal): Promise<void> {
    const { number, text } = await this.#api.version(signal);
    if (number < withRename && !isStaging(from))
      throw new ZfsError("invalid", `renaming a dataset needs TrueNAS 25.10 or newer, and this is ${text}`);
    if (number < withRename) return void (await this.finishRename(from, to, signal));
    await this.#done("pool.dataset.rename", [from, { new_name: to, recursive: false, force: true }], signal);
  }

  async finishRename(from: string, to: string, signal: AbortSignal): Promise<boolean> {
    if ((await this.#api.version(signal)).number >= withRename) return false;
    return moved(this.#copying(), from, to, signal).catch((error: unknown) => {
      throw zfsError(error);
    });
  }

  /** Does nothing: TrueNAS mounts the datasets that it creates. */
  async mount(): Promise<void> {}

  pools(names: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    return poolStates(this.#api, names, signal);
  }

  async copy(copy: Copy, signal: AbortSignal): Promise<void> {
    await copied(this.#copying(), copy, signal);
  }

  #copying(): CopyTools {
    const remove = (name: string, signal: AbortSignal) => this.#removal.copy(name, signal);
    return { api: this.#api, reading: this.#reading, remove };
  }

  async #cloned(
    { name, volsize, values }: NewDataset,
    { snapshot }: CloneOrigin,
    signal: AbortSignal,
  ): Promise<undefined> {
    const { number } = await this.#api.version(signal);
    const size = volsize === undefined ? {} : { volsize: String(volsize) };
    const request = { snapshot, dataset_dst: name, dataset_properties: { ...values, ...size } };
    await this.#api.call(`${snapshotService(number)}.clone`, [request], signal);
  }

  async #clonedAside(
    { name, volsize, values }: NewDataset,
    { snapshot }: CloneOrigin,
    signal: AbortSignal,
  ): Promise<undefined> {
    if (await this.#reading.one(name, ["type"], signal)) throw new ZfsError("exists", `${name} exists already`);
    // The clone has this name until it has its properties; the rest of an interrupted copy has it, too.
    const staging = stagingOf(name);
    await this.#removal.copy(staging, signal);
    await this.#api.call("pool.snapshot.clone", [{ snapshot, dataset_dst: staging }], signal);
    const { fields, user } = apiValues(values);
    const size = volsize === undefined ? {} : { volsize: jsonSize(volsize), force_size: true };
    await this.#changed(staging, { ...fields, ...size }, user, signal);
    await this.rename(staging, name, signal);
  }

  async #setSnapshot(
    name: string,
    user: Readonly<Record<string, string | undefined>>,
    version: number,
    signal: AbortSignal,
  ): Promise<void> {
    if (version >= withSnapshotResources)
      throw new ZfsError("invalid", "TrueNAS 26 does not change the properties of a snapshot");
    await this.#done(`${snapshotService(version)}.update`, [name, { user_properties_update: asChanges(user) }], signal);
    // 26 answers this request as done, and changes nothing.
    if ((await this.#api.version(signal)).number >= withSnapshotResources) throw otherVersion(this.#api);
  }

  async #changed(
    name: string,
    all: Readonly<Record<string, unknown>>,
    user: Readonly<Record<string, string | undefined>>,
    signal: AbortSignal,
  ): Promise<void> {
    const fields = await this.#reserved(name, changeable(all), signal);
    const size = "volsize" in fields ? { force_size: true } : {};
    const changes = asChanges(user);
    // CORE refuses this field even if it is empty.
    const more = changes.length > 0 ? { user_properties_update: changes } : {};
    if (Object.keys(fields).length === 0 && changes.length === 0) return;
    await this.#done("pool.dataset.update", [name, { ...fields, ...size, ...more }], signal);
  }

  /** Replaces the reservation of the whole size by the size in bytes, because the API has no value for it. */
  async #reserved(
    name: string,
    fields: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>> {
    if (fields["refreservation"] !== wholeSize) return fields;
    const volsize =
      fields["volsize"] ??
      Number((await this.#reading.one(name, ["volsize"], signal))?.properties.get("volsize")?.value);
    return { ...fields, refreservation: volsize };
  }

  async #done(method: string, params: readonly unknown[], signal: AbortSignal): Promise<void> {
    try {
      await this.#api.call(method, params, signal);
    } catch (error) {
      throw zfsError(error);
    }
  }

  /**
   * Creates something unless it exists. What a refusal means is decided by what exists, because each version words it differently. `make`
   * can answer the new entry, which saves reading it. `after` runs once the object exists, while it is read.
   */
  async #made(
    name: string,
    make: () => Promise<Entry | undefined>,
    permissions: Permissions | undefined,
    query: PropertyQuery,
    signal: AbortSignal,
    after: () => Promise<void> = async () => {},
  ): Promise<Creation> {
    const seen = async () => (await Promise.all([this.read(query, signal), after()]))[0];
    let fresh: Entry | undefined;
    try {
      fresh = await make();
    } catch (error) {
      const failure = whyNot(error);
      if (failure === undefined || failure === "full") throw zfsError(error);
      if (!(await this.#reading.one(name, ["type"], signal)))
        throw (await this.#orphan(name, signal)) ?? zfsError(error);
      return { made: false, entries: await seen() };
    }
    if (permissions) await this.permit(name, permissions, signal);
    return { made: true, entries: fresh?.name === name ? new Map([[name, fresh]]) : await seen() };
  }

  async #orphan(name: string, signal: AbortSignal): Promise<ZfsError | undefined> {
    const above = name.includes("@") ? name.slice(0, name.indexOf("@")) : parentOf(name);
    if (above === "" || (await this.#reading.one(above, ["type"], signal))) return undefined;
    return new ZfsError("absent", `${above} does not exist`);
  }

  async #mountpoint(name: string, signal: AbortSignal): Promise<string> {
    const place = (await this.#reading.one(name, ["mountpoint"], signal))?.properties.get("mountpoint")?.value;
    return place?.startsWith("/mnt/") ? place : `/mnt/${name}`;
  }
}

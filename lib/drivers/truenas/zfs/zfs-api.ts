import { jsonSize } from "../../sizes.ts";
import { isStaging, stagingOf } from "../../zfs/names.ts";
import type { PropertyQuery } from "../../zfs/zfs.ts";
import {
  type CreationResult,
  type Entry,
  type NewDataset,
  type Permissions,
  type Zfs,
  ZfsError,
} from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { copied, moved } from "./copy.ts";
import { permitted } from "./permissions.ts";
import {
  ofVersion,
  otherVersion,
  poolStates,
  snapshotService,
  systemOf,
  whyNot,
  withResources,
  withSnapshotResources,
  zfsError,
} from "./queries.ts";
import { datasetReader } from "./reading.ts";
import { datasetRemover } from "./removal.ts";
import { createdEntry } from "./rows.ts";
import { ensured, taken } from "./snapshots.ts";
import { type ApiValues, apiValues, asChanges, changeable, creation, unsettable, wholeSize } from "./values.ts";

/** The first version that can rename a dataset. */
const withRename = 2510;

/**
 * The pools of a TrueNAS system, through its API. Only this folder interprets what the server answers about datasets. `shareType`: the
 * use of new file systems; for SMB they get case-insensitive names and NFSv4 access control lists.
 */
export function zfsApi(api: Api, shareType: "GENERIC" | "SMB"): Zfs {
  const reading = datasetReader(api);
  const { read, below, family, one } = reading;
  const { destroy, destroyCopy: remove } = datasetRemover(api, reading);
  const copying = { api, reading, remove };
  const versionFor = async (signal: AbortSignal): Promise<number> => (await api.version(signal)).number;

  const done = (method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> =>
    api.call(method, params, signal).catch((error: unknown) => {
      throw zfsError(error);
    });

  async function permit(name: string, permissions: Permissions, signal: AbortSignal): Promise<void> {
    const path = (await one(name, ["mountpoint"], signal))?.properties.get("mountpoint")?.value;
    await permitted(api, path?.startsWith("/mnt/") ? path : `/mnt/${name}`, permissions, signal);
  }

  /**
   * Creates something unless it exists. What a refusal means is decided by what exists, because each version words it differently. `make`
   * can answer the new entry, which saves reading it. `after` runs once the object exists, while it is read.
   */
  async function created(
    name: string,
    make: () => Promise<Entry | undefined>,
    permissions: Permissions | undefined,
    query: PropertyQuery,
    signal: AbortSignal,
    after: () => Promise<void> = async () => {},
  ): Promise<CreationResult> {
    const seen = async () => (await Promise.all([read(query, signal), after()]))[0];
    let fresh: Entry | undefined;
    try {
      fresh = await make();
    } catch (error) {
      const failure = whyNot(error);
      if (failure === undefined || failure === "full") throw zfsError(error);
      if (!(await one(name, ["type"], signal))) throw (await orphan(name, signal)) ?? zfsError(error);
      return { made: false, entries: await seen() };
    }
    if (permissions) await permit(name, permissions, signal);
    return { made: true, entries: fresh?.name === name ? new Map([[name, fresh]]) : await seen() };
  }

  async function orphan(name: string, signal: AbortSignal): Promise<ZfsError | undefined> {
    const above = name.slice(0, Math.max(0, name.search(/[@/][^@/]*$/)));
    if (above === "" || (await one(above, ["type"], signal))) return undefined;
    return new ZfsError("absent", `${above} does not exist`);
  }

  async function change(name: string, all: ApiValues["fields"], user: ApiValues["user"], signal: AbortSignal) {
    const fields = await reserved(name, changeable(all), signal);
    const size = "volsize" in fields ? { force_size: true } : {};
    const changes = asChanges(user);
    // CORE refuses this field even if it is empty.
    const more = changes.length > 0 ? { user_properties_update: changes } : {};
    if (Object.keys(fields).length === 0 && changes.length === 0) return;
    await done("pool.dataset.update", [name, { ...fields, ...size, ...more }], signal);
  }

  /** Replaces the reservation of the whole size by the size in bytes, because the API has no value for it. */
  async function reserved(name: string, fields: ApiValues["fields"], signal: AbortSignal) {
    if (fields["refreservation"] !== wholeSize) return fields;
    const volsize =
      fields["volsize"] ?? Number((await one(name, ["volsize"], signal))?.properties.get("volsize")?.value);
    return { ...fields, refreservation: volsize };
  }

  async function clone(
    { name, volsize, values }: NewDataset,
    snapshot: string,
    signal: AbortSignal,
  ): Promise<undefined> {
    const size = volsize === undefined ? {} : { volsize: String(volsize) };
    const request = { snapshot, dataset_dst: name, dataset_properties: { ...values, ...size } };
    await api.call(`${snapshotService(await versionFor(signal))}.clone`, [request], signal);
  }

  async function cloneAside(
    { name, volsize, values }: NewDataset,
    snapshot: string,
    signal: AbortSignal,
  ): Promise<undefined> {
    if (await one(name, ["type"], signal)) throw new ZfsError("exists", `${name} exists already`);
    // The clone has this name until it has its properties; the rest of an interrupted copy has it, too.
    const staging = stagingOf(name);
    await remove(staging, signal);
    await api.call("pool.snapshot.clone", [{ snapshot, dataset_dst: staging }], signal);
    const { fields, user } = apiValues(values);
    const size = volsize === undefined ? {} : { volsize: jsonSize(volsize), force_size: true };
    await change(staging, { ...fields, ...size }, user, signal);
    await rename(staging, name, signal);
  }

  async function setSnapshot(name: string, user: ApiValues["user"], signal: AbortSignal): Promise<void> {
    const version = await versionFor(signal);
    if (version >= withSnapshotResources)
      throw new ZfsError("invalid", "TrueNAS 26 does not change the properties of a snapshot");
    await done(`${snapshotService(version)}.update`, [name, { user_properties_update: asChanges(user) }], signal);
    // 26 answers this request as done, and changes nothing.
    if ((await versionFor(signal)) >= withSnapshotResources) throw otherVersion(api);
  }

  async function rename(from: string, to: string, signal: AbortSignal): Promise<void> {
    const { number, text } = await api.version(signal);
    if (number < withRename && !isStaging(from))
      throw new ZfsError("invalid", `renaming a dataset needs TrueNAS 25.10 or newer, and this is ${text}`);
    if (number < withRename) return void (await finishRename(from, to, signal));
    await done("pool.dataset.rename", [from, { new_name: to, recursive: false, force: true }], signal);
  }

  async function finishRename(from: string, to: string, signal: AbortSignal): Promise<boolean> {
    if ((await versionFor(signal)) >= withRename) return false;
    return moved(copying, from, to, signal).catch((error: unknown) => {
      throw zfsError(error);
    });
  }

  return {
    snapshotsTogether: false,
    fixed: unsettable,
    ...{ read, below, family, destroy, permit, rename, finishRename },
    /** The API refuses to answer the version of a system that is too old. */
    ready: async signal => void (await api.version(signal)),
    async namesakes({ name, parent, copies }, query, signal) {
      const [holders, datasets, entries] = await Promise.all([
        reading.holders(parent, name, signal),
        copies === undefined ? [] : reading.datasetsBelow(copies, query.names, signal),
        read(query, signal),
      ]);
      return { holders, copies: datasets.filter(each => each.endsWith(`/${name}`)), entries };
    },
    async create(dataset, parents, query, signal) {
      const make = async () => {
        const row = await api.call("pool.dataset.create", [creation(dataset, parents, shareType)], signal);
        return createdEntry(row, query.properties, dataset.values);
      };
      const result = await created(dataset.name, make, dataset.permissions, query, signal);
      if (!result.made || dataset.volsize === undefined) return result;
      // From 25.10 on a target is named after the guid of its zvol, which this answer does not have.
      return (await versionFor(signal)) < withResources ? result : { ...result, entries: await read(query, signal) };
    },
    /** In one visible step: the request of 26 has no user properties, so there the clone gets its name last. */
    async clone(dataset, { snapshot, temporary }, query, signal) {
      if (temporary) await ensured(api, snapshot, () => one(snapshot, ["type"], signal), signal);
      const system = await systemOf(api, signal);
      const clones = system.version >= withSnapshotResources ? cloneAside : clone;
      const make = () => ofVersion(system, () => clones(dataset, snapshot, signal));
      const drop = temporary ? () => destroy(snapshot, { deferred: true }, signal) : undefined;
      return created(dataset.name, make, dataset.permissions, query, signal, drop);
    },
    async set(name, values, signal) {
      const { fields, user } = apiValues(values);
      await (name.includes("@") ? setSnapshot(name, user, signal) : change(name, fields, user, signal));
    },
    async snapshot([name, ...more], values, query, signal) {
      if (more.length > 0)
        throw new ZfsError("invalid", "TrueNAS cannot take snapshots of several volumes at one moment");
      const take = async () => createdEntry(await taken(api, name, values, signal), query.properties, values);
      return created(name, take, undefined, query, signal);
    },
    /** Does nothing: TrueNAS mounts the datasets that it creates. */
    async mount() {},
    pools: (names, signal) => poolStates(api, names, signal),
    copy: (copy, signal) => copied(copying, copy, signal),
  };
}

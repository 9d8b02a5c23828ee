import type { Call } from "../../core/call.ts";
import { findingsOf } from "../../health/finding.ts";
import type { CopySource } from "../copying.ts";
import type { Context, Page, PageRequest, Source, VolumeSpec } from "../driver.ts";
import { afterFailure } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { wholeUnits } from "../sizes.ts";
import type { CopyTargetStore, HealthInspection, Notes, TenureStore, VolumeStore } from "../store.ts";
import { datasetSnapshotMetadata } from "./blocks/snapshot-metadata.ts";
import { datasetCopySource } from "./copies/source.ts";
import { datasetCopyTarget } from "./copies/target.ts";
import { makeVolume } from "./creation.ts";
import { datasetGroupSnapshots } from "./group-snapshots.ts";
import { datasetKept } from "./kept.ts";
import { isVolumeId } from "./names.ts";
import { bytesOf, markValues, property, refuseUnfit, shownValue, whyNotMarked } from "./properties.ts";
import { type BeforeRemoval, removeVolume } from "./removal.ts";
import { datasetSnapshots } from "./snapshots.ts";
import { dropSources, removeStaging } from "./sources.ts";
import { type ZfsStorage, zfsErrorMapping } from "./storage.ts";
import { sweepTombstones } from "./tombstones.ts";
import { datasetTenures, finishedValues, mutableValues, type NewValues, noteValues, sizeValues } from "./values.ts";
import {
  conditionProperties,
  datasetFindings,
  isSuspended,
  parentFindings,
  poolFindings,
  unlessSuspended,
  volumeIn,
  volumeOf,
  volumePropertyNames,
  volumeQuery,
  type ZfsVolume,
} from "./volume.ts";
import type { Entry, Inspected } from "./zfs.ts";

const clonable = ["volume", "snapshot"] as const;

/** Volumes as children of one dataset, described by their user properties. A process may have thousands of such stores. */
export class DatasetStore implements VolumeStore<ZfsVolume> {
  readonly #storage: ZfsStorage;
  readonly #close: () => Promise<void>;
  /** Volumes that were read at the end of their creation, after everything else; a note makes another object of each. */
  readonly #fresh = new WeakSet<ZfsVolume>();

  /** Volumes that this process has just made and shared. */
  readonly #shared = new WeakSet<ZfsVolume>();

  /** `close` is called when the store is not needed any more. */
  constructor(storage: ZfsStorage, close: () => Promise<void>) {
    this.#storage = storage;
    this.#close = close;
  }

  readonly clonesFrom: readonly Source["kind"][] = clonable;

  get snapshots(): NonNullable<VolumeStore<ZfsVolume>["snapshots"]> {
    return datasetSnapshots(this.#storage);
  }

  get groupSnapshots(): VolumeStore<ZfsVolume>["groupSnapshots"] {
    return this.#storage.zfs.snapshotsTogether ? datasetGroupSnapshots(this.#storage) : undefined;
  }

  get snapshotMetadata(): VolumeStore<ZfsVolume>["snapshotMetadata"] {
    const { copying, settings } = this.#storage;
    return copying && settings.volumes.type === "volume" ? datasetSnapshotMetadata(copying) : undefined;
  }

  get copySource(): CopySource | undefined {
    const { copying } = this.#storage;
    return copying && datasetCopySource(copying);
  }

  get copyTarget(): CopyTargetStore<ZfsVolume> | undefined {
    const { copying } = this.#storage;
    const target = copying && datasetCopyTarget(copying);
    if (!target || copying.storage === this.#storage) return target;
    return {
      ...target,
      // As the API shows it, which up to TrueNAS 25.04 has no guid: the name of a target is proved by what the API shows later.
      complete: async (id, spec, snapshot, stillHeld, call) => {
        const volume = await target.complete(id, spec, snapshot, stillHeld, call);
        return (await this.find(id, call)) ?? volume;
      },
    };
  }

  get kept(): VolumeStore<ZfsVolume>["kept"] {
    return datasetKept(this.#storage);
  }

  get tenures(): TenureStore<ZfsVolume> {
    return datasetTenures(this.#storage);
  }

  /** Repairs a lost share; ZFS shares what it mounts. */
  get restore(): VolumeStore<ZfsVolume>["restore"] {
    const { zfs, settings } = this.#storage;
    const { sharenfs, sharesmb } = settings.sharing;
    if ((sharenfs ?? sharesmb ?? "off") === "off" || !zfs.share) return undefined;
    return async (volume, { signal }) => (this.#shared.has(volume) ? undefined : zfs.share?.(volume.dataset, signal));
  }

  idOf(name: string): string {
    return this.#storage.names.idOf(name);
  }

  readonly explain = zfsErrorMapping;

  async find(id: string, { signal }: Call): Promise<ZfsVolume | undefined> {
    if (!isVolumeId(id)) return undefined;
    const { zfs, names, settings } = this.#storage;
    const entries = await zfs.read(volumeQuery(settings, names, id), signal);
    return volumeIn(id, entries.get(names.dataset(id)), settings);
  }

  async create(spec: VolumeSpec, call: Call): Promise<ZfsVolume> {
    await this.#storage.zfs.ready?.(call.signal);
    try {
      const { volume, isShared } = await makeVolume(this.#storage, spec, call);
      this.#fresh.add(volume);
      if (isShared) this.#shared.add(volume);
      return volume;
    } catch (error) {
      const doing = `create volume "${spec.name.slice(0, 160)}"`;
      throw await afterFailure(error, () => this.#undo(spec, call), this.#storage, doing, call);
    }
  }

  async note(volume: ZfsVolume, notes: Notes, call: Call): Promise<ZfsVolume> {
    await this.#set(volume, noteValues(notes), call, { guid: volume.guid, fresh: this.#fresh.has(volume) });
    return { ...volume, notes: { ...volume.notes, ...notes } };
  }

  async finish(volume: ZfsVolume, notes: Notes, call: Call): Promise<ZfsVolume> {
    const all = { ...volume.notes, ...notes };
    await this.#set(volume, finishedValues(all, this.#storage.settings), call, { guid: volume.guid });
    return { ...volume, notes: all, finished: true };
  }

  idOfObject(object: string): string | undefined {
    return object.includes("/") ? this.#storage.names.volumeOf(object) : object;
  }

  async unmarked(id: string, { signal }: Call): Promise<ZfsVolume | undefined> {
    if (!isVolumeId(id)) return undefined;
    const { zfs, names, settings } = this.#storage;
    const query = volumeQuery(settings, names, id);
    const properties = [...new Set([...query.properties, ...conditionProperties])];
    const entry = (await zfs.read({ ...query, properties }, signal)).get(names.dataset(id));
    if (!entry) return undefined;
    const found = shownValue(entry, "type");
    const why = found === settings.volumes.type ? whyNotMarked(id, entry, settings.marks) : `is a ${found}`;
    if (why !== undefined) throw this.#storage.error("failed-precondition", `${entry.name} ${why}`);
    const volume = volumeOf(id, entry, settings);
    const [finding] = datasetFindings(volume, entry, settings, true, await this.#exported(signal));
    if (finding) throw this.#storage.error("failed-precondition", `${finding.message}; correct that first`);
    return volume;
  }

  async mark(volume: ZfsVolume, notes: Notes, call: Call): Promise<void> {
    const named = { [property.managed]: "true", [property.volumeName]: volume.id };
    const values = {
      ...markValues(this.#storage.identity),
      ...named,
      ...finishedValues(notes, this.#storage.settings),
    };
    await this.#set(volume, values, call);
  }

  remove(id: string, before: BeforeRemoval, call: Call): Promise<void> {
    return removeVolume(this.#storage, id, before, call);
  }

  async resize(volume: ZfsVolume, bytes: bigint, limit: bigint | undefined, call: Call): Promise<ZfsVolume> {
    const { settings } = this.#storage;
    const zvol = settings.volumes.type === "volume" ? settings.volumes : undefined;
    const size = zvol ? wholeUnits(bytes, volume.block || 1n, limit) : bytes;
    const thick = zvol?.thick ? { refreservation: "auto" } : {};
    // The file may have asked for a quota only when the volume was made.
    const limited = volume.bytes > 0n;
    const values: NewValues = zvol ? { volsize: String(size), ...thick } : sizeValues(settings, size, limited);
    // Another controller may have expanded it further meanwhile; ZFS would cut off what is behind the size.
    const property = ["volsize", "refquota", "refreservation"].find(each => values[each] !== undefined) ?? "";
    await this.#set(volume, values, call, { guid: volume.guid, grows: { property, bytes: size } });
    return { ...volume, bytes: size };
  }

  modify(volume: ZfsVolume, properties: Context, call: Call): Promise<void> {
    return this.#set(volume, mutableValues(properties, this.#storage.settings), call);
  }

  /** The space available to the parent, or to the nearest dataset above it that exists. */
  async available(_parameters: Context, { signal }: Call): Promise<bigint> {
    const { zfs, names } = this.#storage;
    const parts = names.parent.split("/");
    const above = parts.map((_, at) => parts.slice(0, at + 1).join("/"));
    const entries = await zfs.read({ names: above, properties: ["available"] }, signal);
    const nearest = above.filter(name => entries.has(name)).at(-1) ?? "";
    return bytesOf(shownValue(entries.get(nearest), "available"));
  }

  async list(page: PageRequest, { signal }: Call): Promise<Page<ZfsVolume>> {
    const { zfs, names, settings } = this.#storage;
    const properties = volumePropertyNames(settings);
    const entries = await zfs.below(names.parent, [settings.volumes.type], properties, 1, signal);
    const volumes = new Map(this.#finishedIn(entries).map(({ volume }) => [volume.id, volume] as const));
    return pageOf([...volumes.keys()], isVolumeId, page, async id => volumes.get(id));
  }

  /**
   * Reads the pools first, then all datasets at once; a suspended pool would not answer about its datasets. Removes the tombstones that
   * nothing needs any more.
   */
  async look(call: Call): Promise<HealthInspection<ZfsVolume>> {
    const { signal } = call;
    const { zfs, names, settings } = this.#storage;
    const states = await zfs.pools(names.pools, signal);
    const pools = poolFindings(states);
    if (isSuspended(states)) return { storage: pools, volumes: new Map(), assets: [] };
    const properties = [...new Set([...volumePropertyNames(settings), ...conditionProperties])];
    const types = [...new Set(["filesystem", settings.volumes.type] as const)];
    const entries = await zfs.below(names.parent, types, properties, 1, signal).catch(unlessSuspended);
    if (!entries) {
      // OpenZFS 2.1 still calls such a pool ONLINE.
      const suspended = new Map([...states, [names.pool, "SUSPENDED"]]);
      return { storage: poolFindings(suspended), volumes: new Map(), assets: [] };
    }
    await sweepTombstones(this.#storage, entries, call);
    const exported = await this.#exported(signal);
    const above = parentFindings(entries.find(({ name }) => name === names.parent));
    const found = this.#finishedIn(entries);
    const findings = found.map(
      ({ volume, entry }) => [volume.id, datasetFindings(volume, entry, settings, above.length > 0, exported)] as const,
    );
    return {
      storage: [...pools, ...above],
      volumes: findingsOf(findings),
      assets: found.map(({ volume }) => volume),
    };
  }

  /** Proves that zfs can be called and the pools exist. */
  async check(call: Call): Promise<void> {
    const { zfs, names } = this.#storage;
    await zfs.read({ names: names.pools, properties: ["type"] }, call.signal);
    await zfs.tellConcerns?.(call);
  }

  close(): Promise<void> {
    return this.#close();
  }

  /** What the NFS server exports; undefined where this connection does not share by NFS, or where it is unknown. */
  async #exported(signal: AbortSignal): Promise<ReadonlySet<string> | undefined> {
    const { zfs, settings } = this.#storage;
    return (settings.sharing["sharenfs"] ?? "off") === "off" ? undefined : zfs.exported?.(signal);
  }

  /** With `of`: another controller may have removed the volume, and made another one of its name. */
  async #set({ dataset }: ZfsVolume, values: NewValues, { signal }: Call, of?: Inspected): Promise<void> {
    if (Object.keys(values).length === 0) return;
    refuseUnfit(values);
    await this.#storage.zfs.set(dataset, values, signal, of);
  }

  #finishedIn(entries: readonly Entry[]) {
    const { names, settings } = this.#storage;
    return entries.flatMap(entry => {
      const id = names.volumeOf(entry.name);
      const volume = id === undefined ? undefined : volumeIn(id, entry, settings);
      return volume?.finished ? [{ volume, entry }] : [];
    });
  }

  /** Removes the rest of a failed creation, but nothing of another request. False if another controller has finished the volume meanwhile. */
  async #undo({ name, source }: VolumeSpec, call: Call): Promise<boolean> {
    const id = this.idOf(name);
    const others = new Error("the volume belongs to another request");
    let isFinished = false;
    const refuseOtherRequest = async (volume: ZfsVolume) => {
      isFinished = volume.finished && volume.name === name;
      if (volume.finished || volume.name !== name) throw others;
    };
    try {
      if (await this.find(id, call)) await removeVolume(this.#storage, id, refuseOtherRequest, call);
      else {
        await removeStaging(this.#storage, this.#storage.names.staging(id), call);
        if (source) await dropSources(this.#storage, id, call);
      }
    } catch (error) {
      if (error !== others) throw error;
      // What this call has copied after that becomes no volume any more.
      if (isFinished && source) await removeStaging(this.#storage, this.#storage.names.staging(id), call);
    }
    return !isFinished;
  }
}

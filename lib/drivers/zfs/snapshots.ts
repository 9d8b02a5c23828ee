import type { Call } from "../../core/call.ts";
import type { Context, Page, PageRequest, Snapshot, SnapshotAbility } from "../driver.ts";
import { afterFailure } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { isVolumeId, snapshotId } from "./names.ts";
import { markValues, otherOwner, ownValue, property, shownValue, whoseSnapshot } from "./properties.ts";
import { destroyTombstones } from "./removal.ts";
import {
  anySnapshot,
  findSnapshot,
  isSnapshot,
  refuseOthers,
  removeCopy,
  removeStaging,
  snapshotBytes,
  snapshotProperties,
  tombstones,
} from "./sources.ts";
import type { ZfsStorage } from "./storage.ts";
import { isSwitchedOn, snapshotValues } from "./values.ts";
import { volumeIn, volumeQuery, type ZfsVolume } from "./volume.ts";
import { type Entry, untrue, ZfsError } from "./zfs.ts";

/** Snapshots of datasets: in their volume, or detached, as full copies. */
export class DatasetSnapshots implements SnapshotAbility {
  readonly #storage: ZfsStorage;

  constructor(storage: ZfsStorage) {
    this.#storage = storage;
  }

  async create(name: string, volumeId: string, parameters: Context, call: Call): Promise<Snapshot> {
    const { names, identity, settings, zfs } = this.#storage;
    const own = names.snapshotName(name, volumeId);
    const volume = await this.#volumeFor(name, own, volumeId, call);
    const values = snapshotValues(settings, { name, volume: volumeId, bytes: volume.bytes, parameters });
    if (isSwitchedOn(parameters, identity, "detachedSnapshots")) return this.#copied(volume, own, values, call);
    const snapshot = `${volume.dataset}@${own}`;
    const query = { names: [names.pool, snapshot], properties: snapshotProperties };
    const { entries } = await zfs
      .snapshot([snapshot], values, query, call.signal)
      .catch(async error => Promise.reject(await snapshotFailure(this.#storage, error, [snapshot], name, call)));
    return this.#existing(`${volumeId}@${own}`, name, volumeId, entries.get(snapshot));
  }

  async delete(id: string, call: Call): Promise<void> {
    const parts = snapshotId(id);
    if (!parts) return;
    const { volume, name, detached } = parts;
    const { zfs, names, settings } = this.#storage;
    const entry = await anySnapshot(this.#storage, id, call);
    const owner = entry && whoseSnapshot(id, entry, settings.marks);
    if (owner !== undefined)
      throw this.#storage.error(
        "failed-precondition",
        `the snapshot ${entry?.name} belongs to ${owner}; csimux leaves it as it is`,
      );
    if (entry && detached) {
      await zfs.finishRename?.(names.snapshotStaging(volume, name), entry.name, call.signal);
      await removeCopy(this.#storage, entry.name, call);
    } else if (entry) await zfs.destroy(entry.name, { deferred: true }, call.signal);
    if (detached) await this.#tidy(volume, name, call);
    else await destroyTombstones(this.#storage, call);
  }

  async get(id: string, call: Call): Promise<Snapshot> {
    const entry = await findSnapshot(this.#storage, id, call);
    if (entry && ownValue(entry, property.success) === "true") return snapshotOf(id, entry);
    throw this.#storage.error("not-found", `snapshot "${id.slice(0, 128)}" does not exist`);
  }

  async list(
    { volumeId }: { readonly volumeId: string | undefined },
    page: PageRequest,
    call: Call,
  ): Promise<Page<Snapshot>> {
    if (volumeId !== undefined && !isVolumeId(volumeId)) return { items: [], next: undefined };
    const [attached, detached] = await Promise.all([this.#attached(volumeId, call), this.#detached(volumeId, call)]);
    const all = new Map([...attached, ...detached]);
    const load = async (id: string) => {
      const entry = all.get(id);
      return entry && snapshotOf(id, entry);
    };
    return pageOf([...all.keys()], id => snapshotId(id) !== undefined, page, load);
  }

  /**
   * The volume that a snapshot is to be taken of. Throws "not-found" when it does not exist, and "already-exists" when another
   * volume has a snapshot of this name (CSI CreateSnapshot).
   */
  async #volumeFor(name: string, own: string, volumeId: string, call: Call): Promise<ZfsVolume> {
    const { names, settings, zfs } = this.#storage;
    const missing = () => this.#storage.error("not-found", `volume "${volumeId.slice(0, 128)}" does not exist`);
    if (!isVolumeId(volumeId)) throw missing();
    const dataset = names.dataset(volumeId);
    const wanted = { name: own, parent: names.parent, copies: names.detachedParent };
    const query = volumeQuery(settings, names, volumeId);
    const { holders, copies, entries } = await zfs.namesakes(wanted, query, call.signal);
    const others = [
      ...holders.filter(each => each !== dataset).map(each => `${each}@${own}`),
      ...copies.filter(each => each !== names.snapshot({ volume: volumeId, name: own, detached: true })),
    ];
    if (others.length > 0) await this.#refuseTaken(name, volumeId, others, call);
    const volume = volumeIn(volumeId, entries.get(dataset), settings);
    if (volume?.finished) return volume;
    throw missing();
  }

  /** Throws "already-exists" when one of these is a snapshot, attached or detached, of another volume. */
  async #refuseTaken(name: string, volumeId: string, others: readonly string[], call: Call): Promise<void> {
    const { names, zfs, settings } = this.#storage;
    for (const entry of (await zfs.read({ names: others, properties: snapshotProperties }, call.signal)).values()) {
      const [dataset = ""] = entry.name.split("@");
      const volume =
        dataset === entry.name
          ? snapshotId(names.detachedIdOf(entry.name))?.volume
          : (ownValue(entry, property.snapshotVolume) ?? names.volumeOf(dataset));
      if (isSnapshot(entry) && volume !== volumeId && otherOwner(entry, settings.marks) === undefined)
        throw this.#storage.error(
          "already-exists",
          `snapshot "${name.slice(0, 128)}" exists, of volume "${volume ?? entry.name}"`,
        );
    }
  }

  /** The answer for a snapshot that exists now, taken by this call or by an earlier one. */
  #existing(id: string, name: string, volumeId: string, entry: Entry | undefined): Snapshot {
    const { marks } = this.#storage.settings;
    const own = isSnapshot(entry) && whoseSnapshot(id, entry, marks) === undefined;
    if (own && ownValue(entry, property.snapshotName) === name) return snapshotOf(id, entry);
    if (entry && shownValue(entry, "defer_destroy") === "on")
      throw this.#storage.error(
        "aborted",
        `the deleted snapshot "${id}" exists until the volumes made from it are gone`,
      );
    if (!entry) throw untrue(`taken the snapshot "${id}"`);
    throw this.#storage.error(
      "already-exists",
      `volume "${volumeId}" has a snapshot "${id}" that csimux did not take under this name`,
    );
  }

  /** Makes a detached snapshot: a full copy beside the volumes, which needs nothing of its volume. */
  async #copied(
    volume: ZfsVolume,
    own: string,
    values: Readonly<Record<string, string>>,
    call: Call,
  ): Promise<Snapshot> {
    const { names, zfs, settings, identity } = this.#storage;
    const { signal } = call;
    const id = `${volume.id}/${own}`;
    const target = names.snapshot({ volume: volume.id, name: own, detached: true });
    const from = names.sourceForSnapshot(volume.id, own);
    const query = { names: [names.pool, target], properties: snapshotProperties };
    const staging = names.snapshotStaging(volume.id, own);
    if (!(await zfs.read(query, signal)).has(target)) {
      const unmounted = settings.volumes.type === "filesystem" ? { canmount: "noauto" } : {};
      const copy = async () => {
        await this.#container(volume.id, signal);
        await zfs.snapshot([from], {}, query, signal);
        await refuseOthers(this.#storage, staging, call);
        await zfs.copy(
          { from, to: staging, values: { ...unmounted, readonly: "on", ...markValues(identity) } },
          signal,
        );
        await zfs.set(staging, values, signal);
        await zfs.rename(staging, target, signal);
      };
      const undo = () => this.#tidy(volume.id, own, call);
      await copy().catch(async error =>
        Promise.reject(await snapshotFailure(this.#storage, error, [target], id, call, undo)),
      );
    } else await zfs.finishRename?.(staging, target, signal);
    await zfs.destroy(`${target}@${from.slice(from.indexOf("@") + 1)}`, {}, signal);
    await zfs.destroy(from, { deferred: true }, signal);
    const entry = (await zfs.read(query, signal)).get(target);
    return this.#existing(id, values[property.snapshotName] ?? "", volume.id, entry);
  }

  /** Makes the dataset that holds the detached snapshots of a volume. */
  async #container(volume: string, signal: AbortSignal): Promise<void> {
    const { names, zfs } = this.#storage;
    const name = names.container(volume);
    const query = { names: [name], properties: ["type"] };
    await zfs.create({ name, volsize: undefined, values: {}, permissions: undefined }, true, query, signal);
  }

  /** Removes the rest of creations of a detached snapshot, and its container if it is empty. */
  async #tidy(volume: string, name: string, call: Call): Promise<void> {
    const { names, zfs } = this.#storage;
    await removeStaging(this.#storage, names.snapshotStaging(volume, name), call);
    await zfs.destroy(names.sourceForSnapshot(volume, name), { deferred: true }, call.signal);
    await zfs.destroy(names.container(volume), {}, call.signal).catch((error: unknown) => {
      if (!(error instanceof ZfsError) || error.failure !== "dependents") throw error;
    });
  }

  async #attached(volumeId: string | undefined, { signal }: Call): Promise<readonly (readonly [string, Entry])[]> {
    const { names, zfs } = this.#storage;
    const aside = await tombstones(this.#storage, signal);
    const ids = new Map([...aside].map(([id, dataset]) => [dataset, id]));
    const ofVolume = (id: string) => [names.dataset(id), aside.get(id)].filter(each => each !== undefined);
    const [parents, depth] = volumeId === undefined ? [[names.parent], 2 as const] : [ofVolume(volumeId), 1 as const];
    const entries = await Promise.all(
      parents.map(parent => zfs.below(parent, ["snapshot"], snapshotProperties, depth, signal)),
    );
    return this.#own(entries.flat(), ({ name }) => {
      const [dataset = "", own = ""] = name.split("@");
      return `${names.volumeOf(dataset) ?? ids.get(dataset) ?? ""}@${own}`;
    });
  }

  async #detached(volumeId: string | undefined, { signal }: Call): Promise<readonly (readonly [string, Entry])[]> {
    const { names, zfs, settings } = this.#storage;
    const [parent, depth] =
      volumeId === undefined ? [names.detachedParent, 2 as const] : [names.container(volumeId), 1 as const];
    const entries = await zfs.below(parent, [settings.volumes.type], snapshotProperties, depth, signal);
    return this.#own(entries, ({ name }) => names.detachedIdOf(name));
  }

  /** The snapshots of this connection among entries, by their ids. */
  #own(entries: readonly Entry[], idOf: (entry: Entry) => string): readonly (readonly [string, Entry])[] {
    const { marks } = this.#storage.settings;
    return entries.flatMap(entry => {
      const id = idOf(entry);
      const own = snapshotId(id) && isSnapshot(entry) && whoseSnapshot(id, entry, marks) === undefined;
      return own ? [[id, entry] as const] : [];
    });
  }
}

/**
 * The failure to take snapshots of these names. It is final only if none of them exists, and nothing else is left after `undo`:
 * after a final failure the caller never deletes anything (CSI CreateSnapshot, "Timeouts").
 */
export function snapshotFailure(
  storage: ZfsStorage,
  error: unknown,
  snapshots: readonly string[],
  name: string,
  call: Call,
  undo = async (): Promise<void> => {},
): Promise<unknown> {
  const gone = async () => {
    const query = { names: [storage.names.pool, ...snapshots], properties: ["type"] };
    const found = await storage.zfs.read(query, call.signal);
    if (snapshots.some(each => found.has(each))) return false;
    await undo();
    return true;
  };
  return afterFailure(error, gone, storage, `create snapshot "${name.slice(0, 160)}"`, call);
}

/** The CSI snapshot of an entry. */
export function snapshotOf(id: string, entry: Entry): Snapshot {
  const group = ownValue(entry, property.group);
  const seconds = Number(shownValue(entry, "creation") ?? 0);
  return {
    id,
    volumeId: snapshotId(id)?.volume ?? "",
    bytes: snapshotBytes(entry),
    createdAt: new Date(seconds * 1000),
    ready: true,
    ...(group !== undefined && { group }),
  };
}

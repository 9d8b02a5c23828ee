import type { Call } from "../../core/call.ts";
import type { Context, Page, PageRequest, Snapshot, SnapshotAbility } from "../driver.ts";
import { afterFailure } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { TakenNames } from "./cli/listing.ts";
import { isVolumeId, snapshotId } from "./names.ts";
import { markValues, otherOwner, property, whoseSnapshot } from "./properties.ts";
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
import type { ConnectionContext } from "./storage.ts";
import { snapshotValues, switched } from "./values.ts";
import { ownValue, shownValue, volumeIn, volumeQuery, type ZfsVolume } from "./volume.ts";
import { type Entries, type Entry, untrue, ZfsError } from "./zfs.ts";

/** Snapshots of datasets: in their volume, or as copies of their own. */
export class DatasetSnapshots implements SnapshotAbility {
  readonly #space: ConnectionContext;
  /** Undefined where the storage looks for a name by itself. */
  readonly #taken: TakenNames | undefined;

  constructor(space: ConnectionContext) {
    const { zfs, names } = space;
    this.#space = space;
    this.#taken =
      zfs.snapshotNames &&
      new TakenNames(async signal => (await zfs.snapshotNames?.(names.parent, names.detachedParent, signal)) ?? []);
  }

  async create(name: string, volumeId: string, parameters: Context, call: Call): Promise<Snapshot> {
    const { names, identity, zfs } = this.#space;
    const own = names.snapshotName(name, volumeId);
    const volume = await this.#free(name, own, volumeId, call);
    const values = snapshotValues(this.#space.settings, { name, volume: volumeId, bytes: volume.bytes, parameters });
    if (switched(parameters, identity, "detachedSnapshots")) return this.#copied(volume, own, values, call);
    const snapshot = `${volume.dataset}@${own}`;
    const look = { names: [names.pool, snapshot], properties: snapshotProperties };
    const { entries } = await zfs
      .snapshot([snapshot], values, look, call.signal)
      .catch(async error => Promise.reject(await snapshotFailure(this.#space, error, [snapshot], name, call)));
    return this.#existing(`${volumeId}@${own}`, name, volumeId, entries.get(snapshot));
  }

  async delete(id: string, call: Call): Promise<void> {
    const parts = snapshotId(id);
    if (!parts) return;
    const { zfs, names } = this.#space;
    const entry = await anySnapshot(this.#space, id, call);
    const whose = entry && whoseSnapshot(id, entry, this.#space.settings.marks);
    if (whose !== undefined)
      throw this.#space.error("failed-precondition", `the snapshot ${entry?.name} is of ${whose}; it is left as it is`);
    if (entry && parts.detached)
      await zfs.finishRename?.(names.snapshotStaging(parts.volume, parts.name), entry.name, call.signal);
    if (entry && parts.detached) await removeCopy(this.#space, entry.name, call);
    else if (entry) await zfs.destroy(entry.name, { deferred: true }, call.signal);
    if (parts.detached) await this.#tidy(parts.volume, parts.name, call);
    else await destroyTombstones(this.#space, call);
  }

  async get(id: string, call: Call): Promise<Snapshot> {
    const entry = await findSnapshot(this.#space, id, call);
    if (entry && ownValue(entry, property.success) === "true") return snapshotOf(id, entry);
    throw this.#space.error("not-found", `snapshot "${id.slice(0, 128)}" does not exist`);
  }

  async list(
    filter: { readonly volumeId: string | undefined },
    page: PageRequest,
    call: Call,
  ): Promise<Page<Snapshot>> {
    const { volumeId } = filter;
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
  async #free(name: string, own: string, volumeId: string, call: Call): Promise<ZfsVolume> {
    const { names, settings, zfs } = this.#space;
    const missing = () => this.#space.error("not-found", `volume "${volumeId.slice(0, 128)}" does not exist`);
    if (!isVolumeId(volumeId)) throw missing();
    const dataset = names.dataset(volumeId);
    const seen = volumeQuery(settings, names, volumeId);
    const mayBeTaken = (await this.#taken?.take(own, call.signal)) ?? true;
    const entries = await (mayBeTaken ? this.#untaken(name, own, volumeId, call) : zfs.read(seen, call.signal));
    const asset = volumeIn(volumeId, entries.get(dataset), settings);
    if (asset?.finished) return asset;
    throw missing();
  }

  /** What is known of the volume. Throws as #free for a name that another one has. */
  async #untaken(name: string, own: string, volumeId: string, call: Call): Promise<Entries> {
    const { names, settings, zfs } = this.#space;
    const dataset = names.dataset(volumeId);
    const wanted = { name: own, parent: names.parent, copies: names.detachedParent };
    const look = volumeQuery(settings, names, volumeId);
    const { holders, copies, entries } = await zfs.namesakes(wanted, look, call.signal);
    const others = [
      ...holders.filter(each => each !== dataset).map(each => `${each}@${own}`),
      ...copies.filter(each => each !== names.snapshot({ volume: volumeId, name: own, detached: true })),
    ];
    if (others.length > 0) await this.#refuseTaken(name, volumeId, others, call);
    return entries;
  }

  /** Throws "already-exists" when one of these is a snapshot, attached or not, of another volume. */
  async #refuseTaken(name: string, volumeId: string, others: readonly string[], call: Call): Promise<void> {
    const { names, zfs, settings } = this.#space;
    for (const entry of (await zfs.read({ names: others, properties: snapshotProperties }, call.signal)).values()) {
      const [dataset = ""] = entry.name.split("@");
      const copied = snapshotId(entry.name.slice(names.detachedParent.length + 1))?.volume;
      const volume =
        dataset === entry.name ? copied : (ownValue(entry, property.snapshotVolume) ?? names.volumeOf(dataset));
      if (isSnapshot(entry) && volume !== volumeId && otherOwner(entry, settings.marks) === undefined)
        throw this.#space.error(
          "already-exists",
          `snapshot "${name.slice(0, 128)}" exists, of volume "${volume ?? entry.name}"`,
        );
    }
  }

  /** The answer for a snapshot that stands there now, made by this call or by an earlier one. */
  #existing(id: string, name: string, volumeId: string, entry: Entry | undefined): Snapshot {
    const { marks } = this.#space.settings;
    const own = isSnapshot(entry) && whoseSnapshot(id, entry, marks) === undefined;
    if (own && ownValue(entry, property.snapshotName) === name) return snapshotOf(id, entry);
    if (entry && shownValue(entry, "defer_destroy") === "on")
      throw this.#space.error(
        "aborted",
        `the deleted snapshot "${id}" stays until the volumes made from it are gone; repeat the call then`,
      );
    if (!entry) throw untrue(`taken the snapshot "${id}"`);
    throw this.#space.error(
      "already-exists",
      `volume "${volumeId}" has a snapshot "${id}" that csimux did not take under this name`,
    );
  }

  /** A snapshot as a full copy beside the volumes: it needs nothing of its volume. */
  async #copied(
    volume: ZfsVolume,
    own: string,
    values: Readonly<Record<string, string>>,
    call: Call,
  ): Promise<Snapshot> {
    const { names, zfs, settings } = this.#space;
    const { signal } = call;
    const id = `${volume.id}/${own}`;
    const target = names.snapshot({ volume: volume.id, name: own, detached: true });
    const from = names.sourceForSnapshot(volume.id, own);
    const look = { names: [names.pool, target], properties: snapshotProperties };
    const staging = names.snapshotStaging(volume.id, own);
    if (!(await zfs.read(look, signal)).has(target)) {
      const quiet =
        settings.volumes.type === "filesystem" ? { canmount: "noauto", readonly: "on" } : { readonly: "on" };
      const copy = async () => {
        await this.#container(volume.id, signal);
        await zfs.snapshot([from], {}, look, signal);
        await refuseOthers(this.#space, staging, call);
        await zfs.copy({ from, to: staging, values: { ...quiet, ...markValues(this.#space.identity) } }, signal);
        await zfs.set(staging, values, signal);
        await zfs.rename(staging, target, signal);
      };
      const undo = () => this.#tidy(volume.id, own, call);
      await copy().catch(async error =>
        Promise.reject(await snapshotFailure(this.#space, error, [target], id, call, undo)),
      );
    } else await zfs.finishRename?.(staging, target, signal);
    await zfs.destroy(`${target}@${from.slice(from.indexOf("@") + 1)}`, {}, signal);
    await zfs.destroy(from, { deferred: true }, signal);
    const entry = (await zfs.read(look, signal)).get(target);
    return this.#existing(id, values[property.snapshotName] ?? "", volume.id, entry);
  }

  /** The dataset that holds the detached snapshots of a volume. */
  async #container(volume: string, signal: AbortSignal): Promise<void> {
    const { names, zfs } = this.#space;
    const name = names.container(volume);
    const look = { names: [name], properties: ["type"] };
    await zfs.create({ name, volsize: undefined, values: {}, permissions: undefined }, true, look, signal);
  }

  /** Removes what creations of a detached snapshot left, and its container once that is empty. */
  async #tidy(volume: string, name: string, call: Call): Promise<void> {
    const { names, zfs } = this.#space;
    await removeStaging(this.#space, names.snapshotStaging(volume, name), call);
    await zfs.destroy(names.sourceForSnapshot(volume, name), { deferred: true }, call.signal);
    await zfs.destroy(names.container(volume), {}, call.signal).catch((error: unknown) => {
      if (!(error instanceof ZfsError) || error.failure !== "dependents") throw error;
    });
  }

  async #attached(volumeId: string | undefined, call: Call): Promise<readonly (readonly [string, Entry])[]> {
    const { names, zfs, settings } = this.#space;
    const aside = await tombstones(this.#space, call.signal);
    const ids = new Map([...aside].map(([id, dataset]) => [dataset, id]));
    const parents =
      volumeId === undefined
        ? [names.parent]
        : [names.dataset(volumeId), ...(aside.get(volumeId) ? [aside.get(volumeId) ?? ""] : [])];
    const depth = volumeId === undefined ? 2 : 1;
    const entries = await Promise.all(
      parents.map(parent => zfs.below(parent, ["snapshot"], snapshotProperties, depth, call.signal)),
    );
    return entries.flat().flatMap(entry => {
      const [dataset = "", name = ""] = entry.name.split("@");
      const volume = names.volumeOf(dataset) ?? ids.get(dataset);
      const id = `${volume}@${name}`;
      const own = volume !== undefined && isSnapshot(entry) && !whoseSnapshot(id, entry, settings.marks);
      return own ? [[id, entry] as const] : [];
    });
  }

  async #detached(volumeId: string | undefined, call: Call): Promise<readonly (readonly [string, Entry])[]> {
    const { names, zfs, settings } = this.#space;
    const parent = volumeId === undefined ? names.detachedParent : names.container(volumeId);
    const depth = volumeId === undefined ? 2 : 1;
    const entries = await zfs.below(parent, [settings.volumes.type], snapshotProperties, depth, call.signal);
    return entries.flatMap(entry => {
      const id = entry.name.slice(names.detachedParent.length + 1);
      const own = snapshotId(id) && isSnapshot(entry) && !whoseSnapshot(id, entry, settings.marks);
      return own ? [[id, entry] as const] : [];
    });
  }
}

/**
 * The failure of taking snapshots of these names: final only where none of them stands, and nothing else of it after `undo`; nobody
 * would ever delete them (CSI CreateSnapshot, "Timeouts").
 */
export function snapshotFailure(
  space: ConnectionContext,
  error: unknown,
  names: readonly string[],
  name: string,
  call: Call,
  undo = async (): Promise<void> => {},
): Promise<unknown> {
  const gone = async () => {
    const look = { names: [space.names.pool, ...names], properties: ["type"] };
    const found = await space.zfs.read(look, call.signal);
    if (names.some(each => found.has(each))) return false;
    await undo();
    return true;
  };
  return afterFailure(error, gone, space, `create snapshot "${name.slice(0, 160)}"`, call);
}

/** The snapshot that an entry is, under its id. */
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

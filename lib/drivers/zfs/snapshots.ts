import type { Call } from "../../core/call.ts";
import type { Snapshot, SnapshotAbility } from "../driver.ts";
import { afterFailure } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { makeFullCopy } from "./full-copy.ts";
import { datasetOf, isVolumeId, snapshotId, snapshotNameOf } from "./names.ts";
import {
  isSnapshot,
  markValues,
  otherOwner,
  ownValue,
  property,
  shownValue,
  tombstoneId,
  whoseSnapshot,
} from "./properties.ts";
import { refuseWhileCopied } from "./protected.ts";
import {
  findSnapshot,
  liveSnapshots,
  removeCopy,
  removeStaging,
  snapshotBytes,
  snapshotProperties,
  snapshotsAside,
} from "./sources.ts";
import type { ZfsStorage } from "./storage.ts";
import { removeFreed, tombstones } from "./tombstones.ts";
import { isSwitchedOn, type NewValues, snapshotValues } from "./values.ts";
import { volumeIn, volumeQuery, type ZfsVolume } from "./volume.ts";
import { type Entry, parentAbsent, untrue, ZfsError } from "./zfs.ts";

type IdAndEntry = readonly [id: string, entry: Entry];

/** Snapshots of datasets: in their volume, or detached, as full copies. */
export function datasetSnapshots(storage: ZfsStorage): SnapshotAbility {
  const { names, settings, zfs, identity } = storage;
  const { marks } = settings;

  /** The volume of a new snapshot. Throws "not-found", and "already-exists" for the name of another volume's snapshot. */
  async function volumeFor(name: string, own: string, volumeId: string, call: Call): Promise<ZfsVolume> {
    const missing = () => storage.error("not-found", `volume "${volumeId.slice(0, 128)}" does not exist`);
    if (!isVolumeId(volumeId)) throw missing();
    const dataset = names.dataset(volumeId);
    const wanted = { name: own, parent: names.parent, copies: names.detachedParent };
    const query = volumeQuery(settings, names, volumeId);
    const { holders, copies, entries } = await zfs.snapshotsNamed(wanted, query, call.signal);
    const others = [
      ...holders.filter(each => each !== dataset).map(each => `${each}@${own}`),
      ...copies.filter(each => each !== names.snapshot({ volume: volumeId, name: own, detached: true })),
    ];
    if (others.length > 0) await refuseTaken(name, volumeId, others, call);
    const volume = volumeIn(volumeId, entries.get(dataset), settings);
    if (volume?.finished) return volume;
    throw missing();
  }

  /** Throws "already-exists" when one of these is a snapshot, attached or detached, of another volume. */
  async function refuseTaken(
    name: string,
    volumeId: string,
    others: readonly string[],
    { signal }: Call,
  ): Promise<void> {
    for (const entry of (await zfs.read({ names: others, properties: snapshotProperties }, signal)).values()) {
      const dataset = datasetOf(entry.name);
      const volume =
        dataset === entry.name
          ? snapshotId(names.detachedIdOf(entry.name))?.volume
          : (ownValue(entry, property.snapshotVolume) ?? names.volumeOf(dataset) ?? tombstoneId(entry));
      // Of two snapshots with one id, the orchestrator would lose one.
      const isKept = volume === volumeId && names.isTombstone(dataset);
      if (!isSnapshot(entry) || (volume === volumeId && !isKept) || otherOwner(entry, marks) !== undefined) continue;
      const of = isKept
        ? "an earlier volume with the same id, which was deleted; delete that snapshot first"
        : "volume";
      const text = `snapshot "${name.slice(0, 128)}" exists, of ${isKept ? of : `${of} "${volume ?? entry.name}"`}`;
      throw storage.error("already-exists", text);
    }
  }

  /** The answer for a snapshot that exists now, taken by this call or by an earlier one. */
  function existing(id: string, name: string, volumeId: string, entry: Entry | undefined): Snapshot {
    const own = isSnapshot(entry) && whoseSnapshot(id, entry, marks) === undefined;
    if (own && ownValue(entry, property.snapshotName) === name) return snapshotOf(id, entry);
    if (entry && shownValue(entry, "defer_destroy") === "on")
      throw storage.error("aborted", `the deleted snapshot "${id}" exists until the volumes made from it are gone`);
    if (!entry) throw untrue(`taken the snapshot "${id}"`);
    const text = `volume "${volumeId}" has a snapshot "${id}" that csimux did not take under this name`;
    throw storage.error("already-exists", text);
  }

  /** Makes a detached snapshot: a full copy outside the volumes, which needs nothing of its volume. */
  async function copied(volume: ZfsVolume, own: string, values: NewValues, call: Call): Promise<Snapshot> {
    const { signal } = call;
    const id = `${volume.id}/${own}`;
    const target = names.snapshot({ volume: volume.id, name: own, detached: true });
    const from = names.sourceForSnapshot(volume.id, own);
    const query = { names: [names.pool, target], properties: snapshotProperties };
    const staging = names.snapshotStaging(volume.id, own);
    const copy = async () => {
      const unmounted = settings.volumes.type === "filesystem" ? { canmount: "noauto" } : {};
      const marked = { ...unmounted, readonly: "on", ...markValues(identity) };
      // The dataset that holds the detached snapshots of the volume.
      const container = { name: names.container(volume.id), volsize: undefined, values: {}, permissions: undefined };
      await zfs.create(container, true, { names: [container.name], properties: ["type"] }, signal);
      const parts = { source: volume.dataset, from, staging, to: target };
      await makeFullCopy(storage, { ...parts, encrypted: false, begun: marked, values }, call);
    };
    const isThere = (await zfs.read(query, signal)).has(target);
    const finished = async () => {
      await (isThere ? zfs.finishRename?.(staging, target, signal) : copy());
      await zfs.destroy(`${target}@${snapshotNameOf(from)}`, {}, signal);
      await zfs.destroy(from, { deferred: true }, signal);
      return (await zfs.read(query, signal)).get(target);
    };
    // Also after the copy has its name: a failure is not final then.
    const undo = () => tidy(volume.id, own, call);
    const entry = await finished().catch(error => throwSnapshotFailure(storage, error, [target], id, call, undo));
    return existing(id, values[property.snapshotName] ?? "", volume.id, entry);
  }

  /** Removes the rest of creations of a detached snapshot, and its container if it is empty. */
  async function tidy(volume: string, name: string, call: Call): Promise<void> {
    await removeStaging(storage, names.snapshotStaging(volume, name), call);
    await zfs.destroy(names.sourceForSnapshot(volume, name), { deferred: true }, call.signal);
    await zfs.destroy(names.container(volume), {}, call.signal).catch((error: unknown) => {
      if (!(error instanceof ZfsError) || error.failure !== "dependents") throw error;
    });
  }

  async function removeDetached(volume: string, name: string, dataset: string, call: Call): Promise<void> {
    await zfs.finishRename?.(names.snapshotStaging(volume, name), dataset, call.signal);
    await removeCopy(storage, dataset, call);
  }

  /** Destroys the snapshot in the volume itself and adds it to `freed` if nothing about it is in doubt; else returns it, of any owner. */
  async function destroyedOrLeft(
    id: string,
    parts: NonNullable<ReturnType<typeof snapshotId>>,
    freed: string[],
    call: Call,
  ): Promise<readonly Entry[]> {
    if (parts.detached || !zfs.destroySure) return liveSnapshots(storage, id, call);
    const name = names.snapshot(parts);
    const { managed, snapshotVolume, snapshotName } = property;
    const own = { [managed]: "true", [snapshotVolume]: parts.volume, [snapshotName]: parts.name };
    const inherited = { [property.driver]: marks.driver, [property.instance]: marks.instanceId };
    const query = { names: [...names.pools, name], properties: snapshotProperties };
    const left = await zfs.destroySure(name, { own, inherited }, query, call.signal);
    if (!left) freed.push(name);
    const entry = left?.get(name);
    return isSnapshot(entry) ? [entry] : [];
  }

  /** `isFirst`: nothing else was removed since the snapshot was read. */
  async function removeAttached(id: string, entry: Entry, isFirst: boolean, call: Call): Promise<void> {
    // The API of TrueNAS renames a snapshot whose destruction it defers, and then its stream would not be found.
    const isApi = storage.copying?.storage !== storage;
    if (isApi) await refuseWhileCopied(storage, `snapshot "${id}"`, [entry], call);
    // Without copies it was read right now, and nothing was asked since then. zfs(8) compares the guid in any case.
    const fresh = isFirst && storage.copying === undefined;
    await zfs.destroy(entry.name, { deferred: true, guid: shownValue(entry, "guid"), fresh }, call.signal);
  }

  async function attached(volumeId: string | undefined, { signal }: Call): Promise<readonly IdAndEntry[]> {
    const below = (parent: string, depth: 1 | 2) => zfs.below(parent, ["snapshot"], snapshotProperties, depth, signal);
    const live = await (volumeId === undefined ? below(names.parent, 2) : below(names.dataset(volumeId), 1));
    // Read after them: a volume that is set aside meanwhile takes its snapshots along, under another name.
    const aside = await tombstones(storage, signal);
    const ids = new Map(aside.map(({ id, dataset }) => [dataset, id]));
    const held = await Promise.all(aside.flatMap(each => (each.id === volumeId ? [below(each.dataset, 1)] : [])));
    // The newest last: of two snapshots with one id, that one is listed.
    return ownOf([...held.reverse().flat(), ...live], ({ name }) => {
      const [dataset = "", own = ""] = name.split("@");
      return `${names.volumeOf(dataset) ?? ids.get(dataset) ?? ""}@${own}`;
    });
  }

  async function detached(volumeId: string | undefined, { signal }: Call): Promise<readonly IdAndEntry[]> {
    const [parent, depth] =
      volumeId === undefined ? [names.detachedParent, 2 as const] : [names.container(volumeId), 1 as const];
    const entries = await zfs.below(parent, [settings.volumes.type], snapshotProperties, depth, signal);
    return ownOf(entries, ({ name }) => names.detachedIdOf(name));
  }

  /** The snapshots of this connection among entries, by their ids. */
  const ownOf = (entries: readonly Entry[], idOf: (entry: Entry) => string): readonly IdAndEntry[] =>
    entries.flatMap(entry => {
      const id = idOf(entry);
      const own = snapshotId(id) && isSnapshot(entry) && whoseSnapshot(id, entry, marks) === undefined;
      return own ? [[id, entry] as const] : [];
    });

  return {
    async create(name, volumeId, parameters, call) {
      const own = names.snapshotName(name, volumeId);
      const volume = await volumeFor(name, own, volumeId, call);
      const values = snapshotValues(settings, { name, volume: volumeId, bytes: volume.bytes, parameters });
      if (isSwitchedOn(parameters, identity, "detachedSnapshots")) return copied(volume, own, values, call);
      const snapshot = `${volume.dataset}@${own}`;
      const query = { names: [names.pool, snapshot], properties: snapshotProperties };
      const { entries } = await zfs
        .snapshot([snapshot], values, query, call.signal)
        .catch(error => throwSnapshotFailure(storage, error, [snapshot], name, call));
      return existing(`${volumeId}@${own}`, name, volumeId, entries.get(snapshot));
    },
    async delete(id, call) {
      const parts = snapshotId(id);
      if (!parts) return;
      const { volume, name } = parts;
      const freed: string[] = [];
      const remove = async (entries: readonly Entry[]) => {
        for (const entry of entries) {
          const owner = whoseSnapshot(id, entry, marks);
          if (owner !== undefined) throw storage.notOwn(`the snapshot ${entry.name} belongs to ${owner}`);
        }
        for (const entry of entries)
          if (parts.detached) await removeDetached(volume, name, entry.name, call);
          else await removeAttached(id, entry, entry === entries[0], call);
        freed.push(...entries.map(entry => entry.name));
      };
      await remove(await destroyedOrLeft(id, parts, freed, call));
      // A volume that is set aside meanwhile takes its snapshot along, under another name. So those that were set aside are read when the
      // snapshot is no longer in the volume itself, and not before. Where none is set aside, an earlier file may have said otherwise.
      if (freed.length === 0 || settings.dependents === "tombstone")
        await remove(await snapshotsAside(storage, id, call));
      const parent = parts.detached ? names.detachedParent : names.parent;
      if (freed.length === 0) await requireParent(storage, parent, call);
      if (parts.detached) await tidy(volume, name, call);
      await removeFreed(storage, freed, call);
    },
    async get(id, call) {
      const entry = await findSnapshot(storage, id, call);
      if (entry && ownValue(entry, property.success) === "true") return snapshotOf(id, entry);
      throw storage.error("not-found", `snapshot "${id.slice(0, 128)}" does not exist`);
    },
    async list({ volumeId }, page, call) {
      if (volumeId !== undefined && !isVolumeId(volumeId)) return { items: [], next: undefined };
      const all = new Map((await Promise.all([attached(volumeId, call), detached(volumeId, call)])).flat());
      const load = async (id: string) => {
        const entry = all.get(id);
        return entry && snapshotOf(id, entry);
      };
      return pageOf([...all.keys()], id => snapshotId(id) !== undefined, page, load);
    },
  };
}

/** Throws the failure to take snapshots: final only if none exists, and nothing else is left after `undo` (CSI, "Timeouts"). */
export async function throwSnapshotFailure(
  storage: ZfsStorage,
  error: unknown,
  snapshots: readonly string[],
  name: string,
  call: Call,
  undo = async (): Promise<void> => {},
): Promise<never> {
  const gone = async () => {
    const query = { names: [storage.names.pool, ...snapshots], properties: ["type"] };
    const found = await storage.zfs.read(query, call.signal);
    if (snapshots.some(each => found.has(each))) return false;
    await undo();
    return true;
  };
  throw await afterFailure(error, gone, storage, `create snapshot "${name.slice(0, 160)}"`, call);
}

/** Throws "pool-absent" if the parent of volumes, or of detached snapshots, does not exist: then nothing proves that a snapshot below is gone. */
export async function requireParent({ zfs, names }: ZfsStorage, parent: string, { signal }: Call): Promise<void> {
  const found = await zfs.read({ names: [...names.pools, parent], properties: ["type"] }, signal);
  if (!found.has(parent)) throw parentAbsent(parent);
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

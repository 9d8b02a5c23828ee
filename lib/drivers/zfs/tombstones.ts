import type { Call } from "../../core/call.ts";
import { belowProperties, destroyWith, familyOf, obstacle, servedOf } from "./dependents.ts";
import { datasetOf } from "./names.ts";
import { markProperties, otherOwner, ownValue, property, shownValue } from "./properties.ts";
import type { StoreSettings, ZfsStorage } from "./storage.ts";
import { volumePropertyNames } from "./volume.ts";
import { type Entries, type Entry, ZfsError } from "./zfs.ts";

/**
 * Tombstones: volumes that were renamed instead of deleted, because something depends on them. Volumes of one id may become tombstones one
 * after another. A tombstone is removed when its last dependent is, or else with a check of the storage's health.
 */

/** A tombstone: the id of its volume, and its dataset. */
export interface Tombstone {
  readonly id: string;
  readonly dataset: string;
}

/** How long a check of the health may remove tombstones, in milliseconds. The next one continues. */
const sweepMs = 10_000;

/** This connection's tombstones among datasets, the newest first. */
const among = ({ names, settings }: ZfsStorage, datasets: readonly Entry[]): readonly Entry[] =>
  datasets
    .filter(each => names.isTombstone(each.name) && otherOwner(each, settings.marks) === undefined)
    .sort((a, b) => Number(shownValue(b, "creation") ?? 0) - Number(shownValue(a, "creation") ?? 0));

/** All tombstones, the newest first, also where the connection does not make them any more. One request. */
export async function tombstones(storage: ZfsStorage, signal: AbortSignal): Promise<readonly Tombstone[]> {
  const { names, settings, zfs } = storage;
  const properties = ["creation", property.tombstone, ...markProperties];
  const datasets = await zfs.below(names.parent, [settings.volumes.type], properties, 1, signal);
  return among(storage, datasets).flatMap(entry => {
    const id = ownValue(entry, property.tombstone);
    return id === undefined ? [] : [{ id, dataset: entry.name }];
  });
}

/** The values of a tombstone, which is neither listed nor shared. */
const valuesOf = ({ volumes }: StoreSettings): Readonly<Record<string, string>> => ({
  [property.managed]: "false",
  ...(volumes.type === "filesystem" && { sharenfs: "off", sharesmb: "off", canmount: "noauto" }),
});

/**
 * Renames a volume that something still needs to a tombstone. Throws "used" or "busy" while it is in use, with nothing changed. Its id is
 * recorded before the rename, and everything else after it.
 */
export async function renameToTombstone(storage: ZfsStorage, id: string, entry: Entry, call: Call): Promise<void> {
  const { zfs, names, settings } = storage;
  const guid = shownValue(entry, "guid");
  if (guid === undefined)
    throw new ZfsError(
      "invalid",
      `${entry.name} is still needed and cannot be set aside, because the storage does not show its guid; delete what needs it` +
        ` first (over the API TrueNAS renames datasets from 25.10 on)`,
    );
  const before = { [property.tombstone]: id };
  const how = { guid, before, after: valuesOf(settings), served: servedOf(storage, entry) };
  try {
    await zfs.rename(entry.name, names.tombstone(guid), call.signal, how);
  } catch (error) {
    if (!(error instanceof ZfsError && error.failure === "absent")) throw error;
    const query = { names: [names.pool, entry.name], properties: ["type"] };
    if ((await zfs.read(query, call.signal)).has(entry.name)) throw error;
  }
}

/** The tombstone that a snapshot is in; undefined for another snapshot. */
function holderOf({ names, settings }: ZfsStorage, snapshot: string | undefined): string | undefined {
  const dataset = datasetOf(snapshot ?? "");
  return settings.dependents === "tombstone" && names.isTombstone(dataset) ? dataset : undefined;
}

/**
 * Removes the tombstones that these snapshots were in, unless something still needs them; then those that they were made from. What fails is
 * left to the check of the health: the caller's own work is done.
 */
export async function removeFreed(
  storage: ZfsStorage,
  snapshots: readonly (string | undefined)[],
  call: Call,
): Promise<void> {
  const { zfs, names, settings } = storage;
  const properties = [...new Set([...volumePropertyNames(settings), ...belowProperties])];
  const removeOne = async (name: string) => {
    const entries = await zfs.family(name, { names: [names.pool], properties }, call.signal);
    const entry = entries.get(name);
    return entry && removed(storage, entry, entries, call);
  };
  const left = snapshots.flatMap(each => holderOf(storage, each) ?? []);
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    const holder = name;
    const origin = await logged(storage, holder, call, () => removeOne(holder));
    left.push(...[holderOf(storage, origin)].filter(each => each !== undefined));
  }
}

/** Removes a tombstone unless something needs it; returns what it was cloned from if it is gone. */
async function removed(storage: ZfsStorage, entry: Entry, entries: Entries, call: Call): Promise<string | undefined> {
  const family = familyOf(entry, entries);
  if (otherOwner(entry, storage.settings.marks) !== undefined || obstacle(storage, family)) return undefined;
  await destroyWith(storage, ownValue(entry, property.tombstone) ?? "", family, call, []);
  return shownValue(entry, "origin");
}

/** Runs work on a tombstone. A failure is logged, once for each tombstone. */
async function logged<T>(
  { stuck }: ZfsStorage,
  dataset: string,
  call: Call,
  work: () => Promise<T>,
): Promise<T | undefined> {
  try {
    const done = await work();
    stuck.delete(dataset);
    return done;
  } catch (cause) {
    const text =
      "a deleted volume that nothing needs any more could not be destroyed; the checks of the health try again";
    if (!stuck.has(dataset)) call.log.warn(text, { dataset, cause });
    stuck.add(dataset);
    return undefined;
  }
}

/**
 * Removes the tombstones that nothing needs any more, and completes those whose making was interrupted. `datasets`: all below the parent,
 * with the properties of volumes. Never throws: the storage may be healthy nevertheless.
 */
export async function sweepTombstones(storage: ZfsStorage, datasets: readonly Entry[], call: Call): Promise<void> {
  const { zfs, names, settings } = storage;
  const all = among(storage, datasets);
  if (settings.dependents !== "tombstone" || all.length === 0) return;
  const end = performance.now() + sweepMs;
  for (const { name } of all.filter(each => ownValue(each, property.managed) === "true"))
    await logged(storage, name, call, () => zfs.set(name, valuesOf(settings), call.signal));
  const named = all.map(({ name }) => name);
  const list = () => zfs.families(named, belowProperties, call.signal);
  const entries = (await logged(storage, names.parent, call, list)) ?? new Map();
  for (const entry of all.filter(({ name }) => entries.has(name))) {
    if (performance.now() > end || call.signal.aborted) return;
    const origin = await logged(storage, entry.name, call, () => removed(storage, entry, entries, call));
    await removeFreed(storage, [origin], call);
  }
}

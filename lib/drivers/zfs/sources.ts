import type { Call } from "../../core/call.ts";
import type { CsiError } from "../../core/errors.ts";
import type { Source } from "../driver.ts";
import { datasetOf, isVolumeId, snapshotId } from "./names.ts";
import {
  bytesOf,
  isSnapshot,
  markProperties,
  otherOwner,
  ownValue,
  property,
  shownValue,
  whoseSnapshot,
} from "./properties.ts";
import { refuseWhileCopied } from "./protected.ts";
import type { ZfsStorage } from "./storage.ts";
import { tombstones } from "./tombstones.ts";
import { listProperties, type NewValues } from "./values.ts";
import { volumeIn, volumeQuery, type ZfsVolume } from "./volume.ts";
import type { Entries, Entry, Zfs } from "./zfs.ts";

/** The dataset or snapshot that a volume is made from. */
export interface CloneSource {
  readonly name: string;
  /** The smallest size in bytes of a volume made from it; 0 when unknown. */
  readonly bytes: bigint;
  /** How its access control lists are kept, if its dataset does not inherit that; a clone would (zfsprops(7)). */
  readonly lists: NewValues;
}

/** Both properties, because their values must fit together, if one of them is set on the dataset itself. */
function listsOf(entry: Entry | undefined): NewValues {
  if (!listProperties.some(name => ownValue(entry, name) !== undefined)) return {};
  return Object.fromEntries(
    listProperties.flatMap(name => {
      const value = shownValue(entry, name);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** The properties of a snapshot, attached or detached. */
export const snapshotProperties = [
  ...["type", "creation", "guid", "defer_destroy", "referenced", "logicalreferenced", "volsize"],
  ...[property.managed, property.success, property.snapshotName, property.snapshotVolume],
  ...[property.bytes, property.group, property.tombstone, ...markProperties],
] as const;

/**
 * The size in bytes of the volume of a snapshot when that was taken; 0 if neither its record nor ZFS tells. The volume may have grown between the
 * reading of the recorded size and the snapshot, and a smaller copy would be cut off.
 */
export function volumeBytes(entry: Entry): bigint {
  const recorded = bytesOf(ownValue(entry, property.bytes));
  const volsize = bytesOf(shownValue(entry, "volsize"));
  return recorded > volsize ? recorded : volsize;
}

/** The smallest size in bytes of a volume made from this snapshot: that of its volume, or of its content. */
export function snapshotBytes(entry: Entry): bigint {
  const known = volumeBytes(entry);
  if (known > 0n) return known;
  const [referenced, logical] = ["referenced", "logicalreferenced"].map(name => bytesOf(shownValue(entry, name)));
  return (logical ?? 0n) > (referenced ?? 0n) ? (logical ?? 0n) : (referenced ?? 0n);
}

/** A snapshot, and its dataset if properties of that were asked for. */
interface LocatedSnapshot {
  readonly entry: Entry;
  readonly dataset: Entry | undefined;
}

/** The snapshot of an id, also in a volume that was set aside; undefined when this connection has none. */
export const findSnapshot = async (storage: ZfsStorage, id: string, call: Call): Promise<Entry | undefined> =>
  (await ownSnapshot(storage, id, [], call))?.entry;

/** Of several in volumes that were set aside that of the newest. `more`: properties to read of its dataset, too. */
async function ownSnapshot(
  storage: ZfsStorage,
  id: string,
  more: readonly string[],
  call: Call,
): Promise<LocatedSnapshot | undefined> {
  const isOwn = ({ entry }: LocatedSnapshot) => whoseSnapshot(id, entry, storage.settings.marks) === undefined;
  const live = (await readAll(storage, liveNames(storage, id), more, call)).find(isOwn);
  return live ?? (await readAll(storage, await namesAside(storage, id, call), more, call)).find(isOwn);
}

/** The snapshot of an id in the volume itself, of any owner. */
export const liveSnapshots = (storage: ZfsStorage, id: string, call: Call): Promise<readonly Entry[]> =>
  entriesOf(storage, liveNames(storage, id), call);

/** The snapshots of an id in the volumes of its id that were set aside, of any owner, that of the newest first. */
export const snapshotsAside = async (storage: ZfsStorage, id: string, call: Call): Promise<readonly Entry[]> =>
  entriesOf(storage, await namesAside(storage, id, call), call);

const entriesOf = async (storage: ZfsStorage, named: readonly string[], call: Call): Promise<readonly Entry[]> =>
  (await readAll(storage, named, [], call)).map(({ entry }) => entry);

function liveNames({ names }: ZfsStorage, id: string): readonly string[] {
  const parts = snapshotId(id);
  return parts ? [names.snapshot(parts)] : [];
}

/** The names that a snapshot of this id has in tombstones, those of the newest first. */
async function namesAside(storage: ZfsStorage, id: string, { signal }: Call): Promise<readonly string[]> {
  const parts = snapshotId(id);
  if (!parts || parts.detached) return [];
  const aside = await tombstones(storage, signal);
  return aside.filter(each => each.id === parts.volume).map(({ dataset }) => `${dataset}@${parts.name}`);
}

/** The CSI snapshots among these names, in their order. */
async function readAll(
  { names, zfs }: ZfsStorage,
  wanted: readonly string[],
  more: readonly string[],
  { signal }: Call,
): Promise<readonly LocatedSnapshot[]> {
  if (wanted.length === 0) return [];
  const all = [...names.pools, ...(more.length > 0 ? wanted.map(datasetOf) : []), ...wanted];
  const query = { names: [...new Set(all)], properties: [...snapshotProperties, ...more] };
  const entries = await zfs.read(query, signal);
  return wanted.flatMap(name => {
    const entry = entries.get(name);
    return isSnapshot(entry) ? [{ entry, dataset: more.length > 0 ? entries.get(datasetOf(name)) : undefined }] : [];
  });
}

/** The dataset or snapshot of a source. Throws "not-found". */
export async function copySourceOf(storage: ZfsStorage, { kind, id }: Source, call: Call): Promise<CloneSource> {
  const missing = () => storage.error("not-found", `the source ${kind} "${id.slice(0, 128)}" does not exist`);
  const { names, settings, zfs } = storage;
  const isFilesystem = settings.volumes.type === "filesystem";
  if (kind === "snapshot") {
    const { entry, dataset } = (await ownSnapshot(storage, id, isFilesystem ? listProperties : [], call)) ?? {};
    if (!entry) throw missing();
    return { name: entry.name, bytes: snapshotBytes(entry), lists: listsOf(dataset) };
  }
  if (!isVolumeId(id)) throw missing();
  const name = names.dataset(id);
  const { properties } = volumeQuery(settings, names, id);
  const asked = isFilesystem ? [...properties, ...listProperties] : properties;
  const entries = await zfs.read({ names: [names.pool, name], properties: asked }, call.signal);
  const volume = volumeIn(id, entries.get(name), settings);
  if (!volume?.finished) throw missing();
  return { name, bytes: volume.bytes, lists: listsOf(entries.get(name)) };
}

/** Removes the rest of an interrupted copy, unless it is another connection's. A dataset that csimux did not mark stays, with a warning. */
export async function removeStaging(storage: ZfsStorage, name: string, call: Call): Promise<void> {
  const { zfs, names, settings } = storage;
  const properties = ["origin", property.managed, ...markProperties];
  const entry = (await zfs.read({ names: [name], properties }, call.signal)).get(name);
  if (!entry || otherOwner(entry, settings.marks) !== undefined) return;
  const isMarked = [property.managed, ...markProperties].some(key => ownValue(entry, key) !== undefined);
  // A clone of a system without rename gets its marks in a second step.
  if (isMarked || names.isOwnOrigin(shownValue(entry, "origin") ?? "")) return removeCopy(storage, name, call);
  call.log.warn("a dataset has the name of an unfinished copy, but no mark of csimux; it is left as it is", {
    dataset: name,
  });
}

/** Removes a copy with its snapshots. Throws "failed-precondition" for one with children. */
export async function removeCopy(storage: ZfsStorage, name: string, call: Call): Promise<void> {
  const { zfs, names } = storage;
  const family = await zfs.family(name, { names: [names.pool], properties: ["type", "guid", "userrefs"] }, call.signal);
  if (!family.has(name)) return;
  await refuseWhileCopied(storage, name, [...family.values()], call);
  await destroyFamily(zfs, name, family, text => storage.error("failed-precondition", text), call);
}

/** Destroys a dataset with exactly the snapshots that were read; throws `refused` for one with children. */
export async function destroyFamily(
  zfs: Zfs,
  name: string,
  family: Entries,
  refused: (text: string) => CsiError,
  call: Call,
): Promise<void> {
  const all = [...family.keys()];
  const child = all.find(each => each.startsWith(`${name}/`));
  if (child !== undefined)
    throw refused(`the dataset ${child}, which csimux did not make, lies below ${name}; remove it first`);
  const snapshots = all.filter(each => each.startsWith(`${name}@`)).map(each => each.slice(name.length + 1));
  const guid = family.get(name)?.properties.get("guid")?.value;
  await zfs.destroy(name, { guid, snapshots }, call.signal);
}

/** Removes the snapshots, on any volume, that a volume was to be made from: it ended before it recorded its source. */
export async function dropSources({ zfs, names, settings }: ZfsStorage, id: string, { signal }: Call): Promise<void> {
  const own = names.sourceFor("", id).slice(1);
  const wanted = { name: own, parent: names.parent, copies: undefined };
  const { holders } = await zfs.snapshotsNamed(wanted, { names: [names.pool], properties: ["type"] }, signal);
  if (holders.length === 0) return;
  const query = { names: holders.map(each => `${each}@${own}`), properties: ["type", ...markProperties] };
  for (const entry of (await zfs.read(query, signal)).values())
    if (otherOwner(entry, settings.marks) === undefined) await zfs.destroy(entry.name, { deferred: true }, signal);
}

/**
 * Removes the snapshot that a finished full copy was made from, if there is one again: another controller may have taken it for the same volume,
 * and ended, or found that finished.
 */
export async function dropSourceOf(
  { zfs, names, settings }: ZfsStorage,
  { id, source, origin }: Pick<ZfsVolume, "id" | "source" | "origin">,
  { signal }: Call,
): Promise<void> {
  if (!source || origin !== undefined) return;
  const parts = source.kind === "snapshot" ? snapshotId(source.id) : undefined;
  if (source.kind === "snapshot" ? !parts?.detached : !isVolumeId(source.id)) return;
  const name = names.sourceFor(parts ? names.snapshot(parts) : names.dataset(source.id), id);
  const entry = (await zfs.read({ names: [name], properties: ["type", ...markProperties] }, signal)).get(name);
  if (entry && otherOwner(entry, settings.marks) === undefined) await zfs.destroy(name, { deferred: true }, signal);
}

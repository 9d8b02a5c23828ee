import type { Call } from "../../core/call.ts";
import type { CsiError } from "../../core/errors.ts";
import type { Source } from "../driver.ts";
import { isDiscarded, isVolumeId, snapshotId } from "./names.ts";
import { bytesOf, markProperties, otherOwner, ownValue, property, shownValue, whoseSnapshot } from "./properties.ts";
import { refuseWhileCopied } from "./protected.ts";
import type { ZfsStorage } from "./storage.ts";
import { listProperties, type NewValues } from "./values.ts";
import { volumeIn, volumeQuery } from "./volume.ts";
import { type Entries, type Entry, type Zfs, ZfsError } from "./zfs.ts";

/** The dataset or snapshot that a volume is made from. */
export interface CopySource {
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

/** The smallest size in bytes of a volume made from this snapshot: that of its volume, or of its content. */
export function snapshotBytes(entry: Entry): bigint {
  const recorded = bytesOf(ownValue(entry, property.bytes));
  if (recorded > 0n) return recorded;
  const volsize = bytesOf(shownValue(entry, "volsize"));
  if (volsize > 0n) return volsize;
  const [referenced, logical] = ["referenced", "logicalreferenced"].map(name => bytesOf(shownValue(entry, name)));
  return (logical ?? 0n) > (referenced ?? 0n) ? (logical ?? 0n) : (referenced ?? 0n);
}

/** Whether an entry is a CSI snapshot. A deleted one that its clones keep is not. */
export const isSnapshot = (entry: Entry | undefined): entry is Entry =>
  entry !== undefined &&
  ownValue(entry, property.snapshotName) !== undefined &&
  ownValue(entry, property.managed) === "true" &&
  shownValue(entry, "defer_destroy") !== "on" &&
  !isDiscarded(entry.name);

/** Deleted volumes that something still needs: the datasets by the ids that they had. */
export async function tombstones(storage: ZfsStorage, signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
  const { names, settings, zfs } = storage;
  if (settings.dependents !== "tombstone") return new Map();
  const types = [settings.volumes.type];
  const entries = await zfs.below(names.parent, types, [property.tombstone, ...markProperties], 1, signal);
  const found = entries.filter(each => names.isTombstone(each.name) && otherOwner(each, settings.marks) === undefined);
  return new Map(
    found.flatMap(entry => {
      const id = ownValue(entry, property.tombstone);
      return id === undefined ? [] : [[id, entry.name]];
    }),
  );
}

/** The snapshot of an id, also in a volume that was set aside; undefined when this connection has none. */
export async function findSnapshot(storage: ZfsStorage, id: string, call: Call): Promise<Entry | undefined> {
  const found = await anySnapshot(storage, id, call);
  return found && whoseSnapshot(id, found, storage.settings.marks) === undefined ? found : undefined;
}

/** Like findSnapshot(), but of any owner. */
export const anySnapshot = async (storage: ZfsStorage, id: string, call: Call): Promise<Entry | undefined> =>
  (await locatedSnapshot(storage, id, false, call))?.entry;

/** A snapshot, and its dataset if that was read, too. */
interface LocatedSnapshot {
  readonly entry: Entry;
  readonly dataset: Entry | undefined;
}

async function locatedSnapshot(
  storage: ZfsStorage,
  id: string,
  withDataset: boolean,
  { signal }: Call,
): Promise<LocatedSnapshot | undefined> {
  const parts = snapshotId(id);
  if (!parts) return undefined;
  const { names, zfs } = storage;
  const read = async (name: string, pools: readonly string[]) => {
    const dataset = name.split("@")[0] ?? "";
    const query = withDataset
      ? { names: [...pools, dataset, name], properties: [...snapshotProperties, ...listProperties] }
      : { names: [...pools, name], properties: snapshotProperties };
    const entries = await zfs.read(query, signal);
    const entry = entries.get(name);
    return isSnapshot(entry) ? { entry, dataset: withDataset ? entries.get(dataset) : undefined } : undefined;
  };
  const found = await read(names.snapshot(parts), names.pools);
  if (found || parts.detached) return found;
  const aside = (await tombstones(storage, signal)).get(parts.volume);
  return aside === undefined ? undefined : read(`${aside}@${parts.name}`, [names.pool]);
}

/** The dataset or snapshot of a source. Throws "not-found". */
export async function copySourceOf(storage: ZfsStorage, { kind, id }: Source, call: Call): Promise<CopySource> {
  const missing = () => storage.error("not-found", `the source ${kind} "${id.slice(0, 128)}" does not exist`);
  const { names, settings, zfs } = storage;
  const isFilesystem = settings.volumes.type === "filesystem";
  if (kind === "snapshot") {
    const { entry, dataset } = (await locatedSnapshot(storage, id, isFilesystem, call)) ?? {};
    if (!entry || whoseSnapshot(id, entry, settings.marks) !== undefined) throw missing();
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

/** Whether a copy, unfinished or left behind, belongs to another connection with the same parent. */
async function isOthers({ zfs, settings }: ZfsStorage, name: string, call: Call): Promise<boolean> {
  const entry = (await zfs.read({ names: [name], properties: markProperties }, call.signal)).get(name);
  return entry !== undefined && otherOwner(entry, settings.marks) !== undefined;
}

/** Throws "aborted" when another connection makes a copy of this name. */
export async function refuseOthers(storage: ZfsStorage, name: string, call: Call): Promise<void> {
  if (!(await isOthers(storage, name, call))) return;
  throw storage.error(
    "aborted",
    `another connection makes the copy ${name}; give each connection a dataset of its own`,
  );
}

/** Takes the snapshot `from` to copy into `staging`. One that an earlier attempt has left is used only while its copy exists. */
export async function takeSource(
  { zfs, names }: ZfsStorage,
  from: string,
  staging: string,
  { signal }: Call,
): Promise<void> {
  const query = { names: [names.pool, staging], properties: ["type"] };
  const continues = (await zfs.read(query, signal)).has(staging);
  if (!continues) await zfs.freeName(from, signal);
  const { made } = await zfs.snapshot([from], {}, query, signal);
  if (!made && !continues) throw new ZfsError("changed", `another call has taken ${from}`);
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
  const family = await zfs.family(name, { names: [names.pool], properties: ["type", "userrefs"] }, call.signal);
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
  await zfs.destroy(name, { snapshots }, call.signal);
}

/** Removes the snapshots, on any volume, that a volume was to be made from: it ended before it recorded its source. */
export async function dropSources({ zfs, names, settings }: ZfsStorage, id: string, { signal }: Call): Promise<void> {
  const own = names.sourceFor("", id).slice(1);
  const wanted = { name: own, parent: names.parent, copies: undefined };
  const { holders } = await zfs.namesakes(wanted, { names: [names.pool], properties: ["type"] }, signal);
  if (holders.length === 0) return;
  const query = { names: holders.map(each => `${each}@${own}`), properties: ["type", ...markProperties] };
  for (const entry of (await zfs.read(query, signal)).values())
    if (otherOwner(entry, settings.marks) === undefined) await zfs.destroy(entry.name, { deferred: true }, signal);
}

import type { Call } from "../../core/call.ts";
import type { Source } from "../driver.ts";
import { isDiscarded, isVolumeId, snapshotId } from "./names.ts";
import { markProperties, otherOwner, property, whoseSnapshot } from "./properties.ts";
import type { ConnectionContext } from "./storage.ts";
import { bytesOf, ownValue, shownValue, volumeIn, volumePropertyNames } from "./volume.ts";
import type { Entries, Entry, PropertyQuery } from "./zfs.ts";

/** Something that a volume can be made from. */
export interface CopySource {
  /** The dataset or snapshot in the pool. */
  readonly name: string;
  /** The smallest size in bytes of a volume made from it; 0 when nobody knows. */
  readonly bytes: bigint;
}

/** Properties of a snapshot, attached or detached, that tell what it is. */
export const snapshotProperties = [
  ...["type", "creation", "guid", "defer_destroy", "referenced", "logicalreferenced", "volsize"],
  ...[property.managed, property.success, property.snapshotName, property.snapshotVolume],
  ...[property.bytes, property.group, property.tombstone, ...markProperties],
] as const;

/** What a volume made from this snapshot needs at least, in bytes: what its volume had, else what is in it. */
export function snapshotBytes(entry: Entry): bigint {
  const recorded = bytesOf(ownValue(entry, property.bytes));
  if (recorded > 0n) return recorded;
  const volsize = bytesOf(shownValue(entry, "volsize"));
  if (volsize > 0n) return volsize;
  const [referenced, logical] = ["referenced", "logicalreferenced"].map(name => bytesOf(shownValue(entry, name)));
  return (logical ?? 0n) > (referenced ?? 0n) ? (logical ?? 0n) : (referenced ?? 0n);
}

/** Whether an entry is a snapshot that exists for the caller: one whose deletion waits for its clones does not. */
export const isSnapshot = (entry: Entry | undefined): entry is Entry =>
  entry !== undefined &&
  ownValue(entry, property.snapshotName) !== undefined &&
  ownValue(entry, property.managed) === "true" &&
  shownValue(entry, "defer_destroy") !== "on" &&
  !isDiscarded(entry.name);

/** Volumes that were deleted while something needs them still: the datasets by the ids that they had. */
export async function tombstones(space: ConnectionContext, signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
  const { names, settings, zfs } = space;
  if (settings.dependents !== "tombstone") return new Map();
  const kinds = [settings.volumes.type];
  const entries = await zfs.below(names.parent, kinds, [property.tombstone, ...markProperties], 1, signal);
  const found = entries.filter(each => names.isTombstone(each.name) && otherOwner(each, settings.marks) === undefined);
  return new Map(
    found.flatMap(entry => {
      const id = ownValue(entry, property.tombstone);
      return id === undefined ? [] : [[id, entry.name]];
    }),
  );
}

/** The snapshot of an id: as it is called, or in the volume that was set aside. Undefined when this connection has none. */
export async function findSnapshot(space: ConnectionContext, id: string, call: Call): Promise<Entry | undefined> {
  const found = await anySnapshot(space, id, call);
  return found && whoseSnapshot(id, found, space.settings.marks) === undefined ? found : undefined;
}

/** As findSnapshot(), whosever it is. */
export async function anySnapshot(space: ConnectionContext, id: string, call: Call): Promise<Entry | undefined> {
  const parts = snapshotId(id);
  if (!parts) return undefined;
  const { names, zfs } = space;
  const name = names.snapshot(parts);
  const pools = [...new Set([names.pool, names.detachedParent.split("/")[0] ?? ""])];
  const look: PropertyQuery = { names: [...pools, name], properties: snapshotProperties };
  const found = (await zfs.read(look, call.signal)).get(name);
  if (isSnapshot(found) || parts.detached) return isSnapshot(found) ? found : undefined;
  const aside = (await tombstones(space, call.signal)).get(parts.volume);
  if (aside === undefined) return undefined;
  const moved = `${aside}@${parts.name}`;
  const entry = (await zfs.read({ names: [names.pool, moved], properties: snapshotProperties }, call.signal)).get(
    moved,
  );
  return isSnapshot(entry) ? entry : undefined;
}

/** What a source is in the pool. Throws "not-found", and "invalid-argument" for a file system where a device is wanted and the like. */
export async function originOf(space: ConnectionContext, source: Source, call: Call): Promise<CopySource> {
  const missing = () =>
    space.error("not-found", `the source ${source.kind} "${source.id.slice(0, 128)}" does not exist`);
  if (source.kind === "snapshot") {
    const entry = await findSnapshot(space, source.id, call);
    if (!entry) throw missing();
    return { name: entry.name, bytes: snapshotBytes(entry) };
  }
  if (!isVolumeId(source.id)) throw missing();
  const { names, settings, zfs } = space;
  const name = names.dataset(source.id);
  const look: PropertyQuery = { names: [names.pool, name], properties: volumePropertyNames(settings) };
  const entries: Entries = await zfs.read(look, call.signal);
  const asset = volumeIn(source.id, entries.get(name), settings);
  if (!asset?.finished) throw missing();
  return { name, bytes: asset.bytes };
}

/** Whether a copy that is being made, or that one has left, is another connection's that uses the same parent. */
async function isOthers({ zfs, settings }: ConnectionContext, name: string, call: Call): Promise<boolean> {
  const entry = (await zfs.read({ names: [name], properties: markProperties }, call.signal)).get(name);
  return entry !== undefined && otherOwner(entry, settings.marks) !== undefined;
}

/** Throws "aborted" when the place where a copy is made is another connection's now. */
export async function refuseOthers(space: ConnectionContext, name: string, call: Call): Promise<void> {
  if (!(await isOthers(space, name, call))) return;
  throw space.error("aborted", `another connection makes the copy ${name}; give each connection a dataset of its own`);
}

/** Removes what an interrupted copy has left, unless it is another connection's. */
export async function removeStaging(space: ConnectionContext, name: string, call: Call): Promise<void> {
  if (!(await isOthers(space, name, call))) await removeCopy(space, name, call);
}

/** Removes a dataset that csimux copied, with its snapshots. Throws "failed-precondition" for one with others below it. */
export async function removeCopy(space: ConnectionContext, name: string, call: Call): Promise<void> {
  const { zfs, names } = space;
  const all = await zfs.family(name, { names: [names.pool], properties: ["type"] }, call.signal);
  if (!all.has(name)) return;
  const child = [...all.keys()].find(each => each.startsWith(`${name}/`));
  if (child !== undefined)
    throw space.error("failed-precondition", `the dataset ${child}, which csimux did not make, lies below ${name}`);
  const snapshots = [...all.keys()]
    .filter(each => each.startsWith(`${name}@`))
    .map(each => each.slice(name.length + 1));
  await zfs.destroy(name, { snapshots }, call.signal);
}

/** Removes what a creation left that got no further than beside its volume. `sourced`: it was to be made from something else. */
export async function removeLeft(space: ConnectionContext, id: string, sourced: boolean, call: Call): Promise<void> {
  await removeStaging(space, space.names.staging(id), call);
  if (sourced) await dropSources(space, id, call);
}

/**
 * Removes the snapshots that a volume was to be made from, on whatever volumes of this connection they are: its creation broke off
 * before it said what its source is.
 */
export async function dropSources(
  { zfs, names, settings }: ConnectionContext,
  id: string,
  { signal }: Call,
): Promise<void> {
  const own = names.sourceFor("", id).slice(1);
  const wanted = { name: own, parent: names.parent, copies: undefined };
  const { holders } = await zfs.namesakes(wanted, { names: [names.pool], properties: ["type"] }, signal);
  if (holders.length === 0) return;
  const look = { names: holders.map(each => `${each}@${own}`), properties: ["type", ...markProperties] };
  for (const entry of (await zfs.read(look, signal)).values())
    if (otherOwner(entry, settings.marks) === undefined) await zfs.destroy(entry.name, { deferred: true }, signal);
}

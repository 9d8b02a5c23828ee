import type { Call } from "../../core/call.ts";
import type { Source } from "../driver.ts";
import type { ConnectionContext } from "./connection-context.ts";
import { markProperties, otherOwner, whoseSnapshot } from "./marks.ts";
import { isDiscarded, isVolumeId, snapshotId } from "./names.ts";
import { property } from "./user-properties.ts";
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

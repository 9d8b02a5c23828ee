import type { Source } from "../driver.ts";
import type { Notes, StoredVolume } from "../store.ts";
import { markProperties, whyNotVolume } from "./marks.ts";
import type { DatasetNames } from "./names.ts";
import type { StoreSettings } from "./settings.ts";
import { noteProperty, parseContext, property } from "./user-properties.ts";
import type { Entry, PropertyQuery } from "./zfs.ts";

/** A dataset or zvol that is a volume, or is becoming one. */
export interface ZfsVolume extends StoredVolume {
  readonly dataset: string;
  /** The number by which ZFS tells it from every other dataset; empty when it does not. */
  readonly guid: string;
  /** When ZFS made it, in seconds since 1970; empty when it does not tell. */
  readonly creation: string;
  /** Where a file system is mounted on its host; undefined where it is not. */
  readonly mountpoint: string | undefined;
  /** The snapshot that it is a clone of. */
  readonly origin: string | undefined;
  /** The block size of a volume in bytes; 0 for a file system. */
  readonly block: bigint;
}

/** The value of a property, inherited or not. */
export const shownValue = (entry: Entry | undefined, name: string): string | undefined =>
  entry?.properties.get(name)?.value;

/** The value that stands on the thing itself: user properties of a dataset are inherited by its snapshots and by what lies below. */
export function ownValue(entry: Entry | undefined, name: string): string | undefined {
  const found = entry?.properties.get(name);
  return found?.own ? found.value : undefined;
}

/** A size in bytes; 0 for what is none. */
export const bytesOf = (text: string | undefined): bigint => (text && /^\d+$/.test(text) ? BigInt(text) : 0n);

/** What has to be read of a dataset to know the volume that it is. */
export const volumePropertyNames = ({ noteKeys, volumes }: StoreSettings): readonly string[] => [
  ...["type", "guid", "creation", "origin"],
  ...(volumes.type === "volume" ? ["volsize", "volblocksize"] : ["refquota", "mountpoint", "mounted", "sharenfs"]),
  ...[property.managed, property.success, property.volumeName, property.context],
  ...[property.sourceKind, property.sourceId, property.tombstone, ...markProperties],
  ...noteKeys.map(noteProperty),
];

/** What has to be read to know a volume, and whether it could be there at all. */
export const volumeQuery = (settings: StoreSettings, names: DatasetNames, id: string): PropertyQuery => ({
  names: [...new Set([names.pool, names.parent, names.dataset(id)])],
  properties: volumePropertyNames(settings),
});

const keptElsewhere = new Set(["node_attach_driver", "provisioner_driver", "provisioner_driver_instance_id"]);

function notesOf(entry: Entry, { noteKeys }: StoreSettings): Notes {
  const context = Object.entries(parseContext(ownValue(entry, property.context)) ?? {});
  const kept = noteKeys.map(key => [key, ownValue(entry, noteProperty(key))] as const);
  return Object.fromEntries([
    ...context.filter(([key]) => !keptElsewhere.has(key)),
    ...kept.flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  ]);
}

function sourceOf(entry: Entry): Source | undefined {
  const kind = ownValue(entry, property.sourceKind);
  const id = ownValue(entry, property.sourceId);
  return (kind === "volume" || kind === "snapshot") && id !== undefined ? { kind, id } : undefined;
}

/** The volume that a dataset is; undefined for a dataset that neither csimux nor democratic-csi made as one of this connection. */
export function volumeIn(id: string, entry: Entry | undefined, settings: StoreSettings): ZfsVolume | undefined {
  if (!entry || whyNotVolume(id, entry, settings.marks) !== undefined) return undefined;
  if (shownValue(entry, "type") !== settings.volumes.type) return undefined;
  const volume = settings.volumes.type === "volume";
  const mountpoint = shownValue(entry, "mountpoint");
  return {
    id,
    dataset: entry.name,
    guid: shownValue(entry, "guid") ?? "",
    creation: shownValue(entry, "creation") ?? "",
    name: ownValue(entry, property.volumeName),
    bytes: bytesOf(shownValue(entry, volume ? "volsize" : "refquota")),
    source: sourceOf(entry),
    notes: notesOf(entry, settings),
    finished: ownValue(entry, property.success) === "true",
    mountpoint: mountpoint?.startsWith("/") ? mountpoint : undefined,
    origin: shownValue(entry, "origin"),
    block: volume ? bytesOf(shownValue(entry, "volblocksize")) : 0n,
  };
}

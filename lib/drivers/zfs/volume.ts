import type { Finding } from "../../health/finding.ts";
import type { Source } from "../driver.ts";
import type { Notes, StoredVolume } from "../store.ts";
import type { DatasetNames } from "./names.ts";
import { markProperties, noteProperty, parseContext, property, whyNotVolume } from "./properties.ts";
import type { StoreSettings } from "./storage.ts";
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

/** What has to be read of a dataset, beside what makes it a volume, to know how it is. */
export const conditionProperties = ["available", "keystatus", "mounted", "sharenfs", "sharesmb"] as const;

/** Words of zpool(8) for a pool that has lost redundancy, and for one that is of no use. */
const degraded: ReadonlySet<string> = new Set(["DEGRADED"]);
const faulted: ReadonlySet<string> = new Set(["FAULTED", "UNAVAIL", "SUSPENDED", "OFFLINE", "REMOVED"]);

/** What the states of pools say, by their names (zpoolconcepts(7), "Device Failure and Recovery"). */
export function poolFindings(states: ReadonlyMap<string, string>): readonly Finding[] {
  const named = (words: ReadonlySet<string>) => [...states].filter(([, state]) => words.has(state));
  const finding = (reason: "PoolDegraded" | "PoolFaulted", found: readonly (readonly [string, string])[]) =>
    found.length === 0
      ? []
      : [
          {
            reason,
            message: found.map(([pool, state]) => `the pool "${pool}" is ${state}; see zpool status`).join("; "),
          },
        ];
  return [...finding("PoolDegraded", named(degraded)), ...finding("PoolFaulted", named(faulted))];
}

/** Whether nothing can be done with one of the pools: then its datasets cannot be listed either. */
export const isSuspended = (states: ReadonlyMap<string, string>): boolean => [...states.values()].includes("SUSPENDED");

/** What the dataset above all volumes says of the storage as a whole. */
export const parentFindings = (parent: Entry | undefined): readonly Finding[] =>
  isFull(parent) ? [{ reason: "StorageFull", message: `nothing is available to ${parent?.name ?? ""}` }] : [];

/**
 * What is wrong with a volume, by what was read of it; `full`: the whole storage is, so that its quota says nothing more; `exported`:
 * what the NFS server exports, undefined where nobody knows.
 */
export function datasetFindings(
  asset: ZfsVolume,
  entry: Entry,
  settings: StoreSettings,
  full: boolean,
  exported?: ReadonlySet<string>,
): readonly Finding[] {
  if (shownValue(entry, "keystatus") === "unavailable")
    return [{ reason: "KeyNotLoaded", message: `the key of ${entry.name} is not loaded` }];
  if (settings.volumes.type === "volume") return [];
  const findings: Finding[] = [];
  if (!full && bytesOf(shownValue(entry, "refquota")) > 0n && isFull(entry))
    findings.push({ reason: "QuotaFull", message: `${entry.name} has used up its quota of ${asset.bytes} bytes` });
  const { protocol, sharing } = settings;
  if (protocol !== "nfs" && protocol !== "smb") return findings;
  if (asset.mountpoint !== undefined && shownValue(entry, "mounted") === "no")
    findings.push({ reason: "DatasetNotMounted", message: `${entry.name} is not mounted on its host` });
  const property = protocol === "nfs" ? "sharenfs" : "sharesmb";
  const wanted = sharing[property] ?? "off";
  if (wanted !== "off" && shownValue(entry, property) === "off")
    findings.push({ reason: "ShareMissing", message: `${property} of ${entry.name} is off` });
  else if (exported && isShared(asset, entry) && !exported.has(asset.mountpoint ?? ""))
    findings.push({ reason: "ShareMissing", message: `the NFS server does not export ${asset.mountpoint}` });
  return findings;
}

/** Whether the NFS server has to export a file system. */
const isShared = ({ mountpoint }: ZfsVolume, entry: Entry): boolean =>
  mountpoint !== undefined && shownValue(entry, "mounted") === "yes" && shownValue(entry, "sharenfs") !== "off";

const isFull = (entry: Entry | undefined): boolean => shownValue(entry, "available") === "0";

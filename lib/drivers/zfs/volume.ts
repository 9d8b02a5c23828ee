import type { Finding } from "../../health/finding.ts";
import type { Source } from "../driver.ts";
import type { Notes, StoredVolume } from "../store.ts";
import { type Tenure, tenureIn } from "../tenure.ts";
import type { DatasetNames } from "./names.ts";
import {
  bytesOf,
  copyOfIn,
  markProperties,
  noteProperty,
  ownValue,
  parseContext,
  property,
  shownValue,
  whyNotVolume,
} from "./properties.ts";
import type { StoreSettings } from "./storage.ts";
import { type Entry, type PropertyQuery, ZfsError } from "./zfs.ts";

/** A dataset or zvol that is a volume, finished or not. */
export interface ZfsVolume extends StoredVolume {
  readonly dataset: string;
  /** The number that distinguishes it from every other dataset; empty when the storage does not show it. */
  readonly guid: string;
  /** When ZFS made it, in seconds since 1970; empty when the storage does not show it. */
  readonly creation: string;
  /** Where a file system is mounted on its host; undefined where it is not. */
  readonly mountpoint: string | undefined;
  /** The text of its tenure as it is on the storage. */
  readonly tenureText: string | undefined;
  /** The snapshot that it is a clone of. */
  readonly origin: string | undefined;
  /** The block size of a zvol in bytes; 0 for a file system. */
  readonly block: bigint;
  /** Whether it came as a whole with a stream (zfs receive), so that its notes are those of the volume that it was sent from. */
  readonly isReceived: boolean;
}

/** The properties that make a dataset a volume. */
export const volumePropertyNames = ({ noteKeys, volumes }: StoreSettings): readonly string[] => [
  ...["type", "guid", "creation", "origin"],
  ...(volumes.type === "volume"
    ? ["volsize", "volblocksize"]
    : ["refquota", "mountpoint", "mounted", "sharenfs", ...(volumes.reservation ? ["refreservation"] : [])]),
  ...[property.managed, property.success, property.volumeName, property.context],
  ...[property.sourceKind, property.sourceId, property.copyOf, property.tombstone, property.tenure, ...markProperties],
  ...noteKeys.map(noteProperty),
];

/** Reads a volume; its pool and parent prove that it could exist. */
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

/** A tenure that came with a stream is that of the volume it was sent from: it may keep this one, but gives it to no claim. */
function tenureOf(entry: Entry): Tenure | undefined {
  const tenure = tenureIn(ownValue(entry, property.tenure));
  const isReceived = entry.properties.get(property.tenure)?.received === true;
  return tenure && isReceived ? { ...tenure, claim: undefined, released: undefined } : tenure;
}

/** The volume in a dataset; undefined for a dataset that neither csimux nor democratic-csi made for this connection. */
export function volumeIn(id: string, entry: Entry | undefined, settings: StoreSettings): ZfsVolume | undefined {
  if (!entry || whyNotVolume(id, entry, settings.marks) !== undefined) return undefined;
  return shownValue(entry, "type") === settings.volumes.type ? volumeOf(id, entry, settings) : undefined;
}

/** A dataset of the right type as a volume, with or without marks. */
export function volumeOf(id: string, entry: Entry, settings: StoreSettings): ZfsVolume {
  const { type } = settings.volumes;
  const mountpoint = shownValue(entry, "mountpoint");
  return {
    id,
    dataset: entry.name,
    guid: shownValue(entry, "guid") ?? "",
    creation: shownValue(entry, "creation") ?? "",
    name: ownValue(entry, property.volumeName),
    bytes: bytesOf(shownValue(entry, type === "volume" ? "volsize" : "refquota")),
    partlyResized: isUnreserved(entry, settings),
    source: sourceOf(entry),
    tenure: tenureOf(entry),
    tenureText: ownValue(entry, property.tenure),
    copyOf: copyOfIn(ownValue(entry, property.copyOf)),
    notes: notesOf(entry, settings),
    finished: ownValue(entry, property.success) === "true",
    mountpoint: mountpoint?.startsWith("/") ? mountpoint : undefined,
    origin: shownValue(entry, "origin"),
    block: type === "volume" ? bytesOf(shownValue(entry, "volblocksize")) : 0n,
    isReceived: entry.properties.get(property.success)?.received === true,
  };
}

/** Whether less than the size of a file system is reserved. One without any reservation was made before the connection had the setting. */
function isUnreserved(entry: Entry, { volumes }: StoreSettings): boolean {
  const [size, reserved] = ["refquota", "refreservation"].map(name => bytesOf(shownValue(entry, name)));
  return volumes.type === "filesystem" && volumes.reservation && !!reserved && reserved < (size ?? 0n);
}

/** The properties that `datasetFindings` reads, besides those of a volume. */
export const conditionProperties = ["available", "keystatus", "mounted", "sharenfs", "sharesmb"] as const;

const degraded: ReadonlySet<string> = new Set(["DEGRADED"]);
const faulted: ReadonlySet<string> = new Set(["FAULTED", "UNAVAIL", "SUSPENDED", "OFFLINE", "REMOVED"]);

/** The findings about pools, by their states (zpoolconcepts(7), "Device Failure and Recovery"). */
export function poolFindings(states: ReadonlyMap<string, string>): readonly Finding[] {
  const finding = (reason: "PoolDegraded" | "PoolFaulted", words: ReadonlySet<string>) => {
    const found = [...states].filter(([, state]) => words.has(state));
    const message = found.map(([pool, state]) => `the pool "${pool}" is ${state}; see zpool status`).join("; ");
    return found.length === 0 ? [] : [{ reason, message }];
  };
  return [...finding("PoolDegraded", degraded), ...finding("PoolFaulted", faulted)];
}

/** Whether one of the pools is suspended: then its datasets cannot be listed either. */
export const isSuspended = (states: ReadonlyMap<string, string>): boolean => [...states.values()].includes("SUSPENDED");

/** The findings about the storage as a whole in the dataset above all volumes. */
export const parentFindings = (parent: Entry | undefined): readonly Finding[] =>
  isFull(parent) ? [{ reason: "StorageFull", message: `nothing is available to ${parent?.name ?? ""}` }] : [];

/** The findings about a volume. `full`: so is the whole storage; `exported`: what the NFS server exports, undefined if unknown. */
export function datasetFindings(
  { bytes, mountpoint }: ZfsVolume,
  entry: Entry,
  { volumes, protocol, sharing }: StoreSettings,
  full: boolean,
  exported?: ReadonlySet<string>,
): readonly Finding[] {
  if (shownValue(entry, "keystatus") === "unavailable")
    return [{ reason: "KeyNotLoaded", message: `the key of ${entry.name} is not loaded` }];
  if (volumes.type === "volume") return [];
  const findings: Finding[] = [];
  if (!full && bytesOf(shownValue(entry, "refquota")) > 0n && isFull(entry))
    findings.push({ reason: "QuotaFull", message: `${entry.name} has used up its quota of ${bytes} bytes` });
  if (protocol !== "nfs" && protocol !== "smb") return findings;
  const mounted = shownValue(entry, "mounted");
  if (mountpoint !== undefined && mounted === "no")
    findings.push({ reason: "DatasetNotMounted", message: `${entry.name} is not mounted on its host` });
  const shares = protocol === "nfs" ? "sharenfs" : "sharesmb";
  const isShared = mountpoint !== undefined && mounted === "yes" && shownValue(entry, "sharenfs") !== "off";
  if ((sharing[shares] ?? "off") !== "off" && shownValue(entry, shares) === "off")
    findings.push({ reason: "ShareMissing", message: `${shares} of ${entry.name} is off` });
  else if (exported && isShared && !exported.has(mountpoint))
    findings.push({ reason: "ShareMissing", message: `the NFS server does not export ${mountpoint}` });
  return findings;
}

const isFull = (entry: Entry | undefined): boolean => shownValue(entry, "available") === "0";

/** Undefined for a suspended pool. Throws every other failure. */
export function unlessSuspended(error: unknown): undefined {
  if (!(error instanceof ZfsError && error.failure === "suspended")) throw error;
}

import type { Finding } from "../../health/finding.ts";
import type { StoreSettings } from "./settings.ts";
import { bytesOf, shownValue, type ZfsVolume } from "./volume.ts";
import type { Entry } from "./zfs.ts";

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

import type { Call } from "../../core/call.ts";
import { pause } from "../../core/time.ts";
import { isDiscarded, isTemporary, snapshotNameOf, stagingOf } from "./names.ts";
import { isSnapshot, ownValue, property, shownValue } from "./properties.ts";
import type { ZfsStorage } from "./storage.ts";
import { type DestroyOptions, type Entries, type Entry, type ServedFilesystem, ZfsError } from "./zfs.ts";

// What depends on a dataset, and how a dataset goes with what belongs to it.

/** The pauses before a busy dataset is tried again, in milliseconds. */
const busyPausesMs: readonly number[] = [300, 700, 1500];

/** A dataset to remove, with its snapshots and children. */
export interface Family {
  readonly entry: Entry;
  readonly below: readonly Entry[];
}

/** The properties of a dataset's snapshots and children that decide what becomes of it. */
export const belowProperties = [
  ...["type", "guid", "clones", "defer_destroy", "userrefs", property.snapshotName, property.managed],
];

const nameOf = ({ name }: Entry): string => snapshotNameOf(name);

/** The snapshots that neither csimux nor democratic-csi took. */
const foreignOf = (below: readonly Entry[]): readonly Entry[] =>
  below.filter(
    each =>
      each.name.includes("@") &&
      ownValue(each, property.snapshotName) === undefined &&
      !isTemporary(nameOf(each)) &&
      !isDiscarded(each.name),
  );

const listed = (names: readonly string[]): string =>
  `${names.slice(0, 5).join(", ")}${names.length > 5 ? ` and ${names.length - 5} more` : ""}`;

/** What keeps a volume from being removed, in words; undefined when nothing does. `passing`: a tombstone can wait for its end. */
export function obstacle(
  { settings }: ZfsStorage,
  { entry, below }: Family,
): { readonly why: string; readonly passing: boolean } | undefined {
  const lasting = (why: string) => ({ why, passing: false });
  const child = below.find(each => shownValue(each, "type") !== "snapshot");
  if (child) return lasting(`the dataset ${child.name}, which csimux did not make, lies below it`);
  const foreign = foreignOf(below);
  if (settings.foreignSnapshots === "keep" && foreign.length > 0)
    return lasting(
      `it has snapshots that csimux did not take: ${listed(foreign.map(nameOf))}; destroy them first (zfs.foreignSnapshots: keep)`,
    );
  const held = foreign.filter(each => (shownValue(each, "userrefs") ?? "0") !== "0");
  if (held.length > 0)
    return lasting(`its snapshots are held: ${listed(held.map(nameOf))}; see zfs holds, and release them first`);
  const snapshots = below.filter(isSnapshot).map(nameOf);
  if (snapshots.length > 0) return { why: `it has snapshots: ${listed(snapshots)}; delete them first`, passing: true };
  // The copy that the volume was made of is removed with it.
  const clones = below
    .flatMap(each => shownValue(each, "clones")?.split(",") ?? [])
    .filter(name => name !== "" && name !== stagingOf(entry.name));
  if (clones.length === 0) return undefined;
  return { why: `${entry.name} is the origin of ${listed(clones)}; delete those first`, passing: true };
}

/** A dataset with what lies below it, of which `entries` may contain more. */
export const familyOf = (entry: Entry, entries: Entries): Family => ({
  entry,
  below: [...entries.values()].filter(
    ({ name }) => name.startsWith(`${entry.name}@`) || name.startsWith(`${entry.name}/`),
  ),
});

/** A file system that its host may serve; undefined for any other dataset. Throws "used" for one that its node has mounted. */
export function servedOf({ settings: { protocol } }: ZfsStorage, entry: Entry): ServedFilesystem | undefined {
  const mountpoint = shownValue(entry, "mountpoint");
  if (shownValue(entry, "mounted") !== "yes" || mountpoint === undefined) return undefined;
  if (protocol !== "zfs-local") return { protocol, mountpoint };
  if (mountpoint === "legacy") throw new ZfsError("used", `${entry.name} is mounted on its node`);
  return undefined;
}

/**
 * Destroys a volume with its snapshots: exactly those that were inspected, and only with it. A snapshot that was taken for this clone
 * goes, too: it is destroyed (deferred) first, so that no interruption leaves it behind. `pausesMs`: before a busy one is tried again.
 */
export async function destroyWith(
  storage: ZfsStorage,
  id: string,
  { entry, below }: Family,
  call: Call,
  pausesMs = busyPausesMs,
): Promise<void> {
  const { zfs, names } = storage;
  const served = servedOf(storage, entry);
  const unfinished = ownValue(entry, property.managed) === "true" && ownValue(entry, property.success) !== "true";
  const how: DestroyOptions = {
    ...{ guid: shownValue(entry, "guid"), unfinished, snapshots: below.map(nameOf) },
    ...(served && { served }),
  };
  const foreign = foreignOf(below).map(nameOf);
  if (foreign.length > 0)
    call.log.warn("snapshots that csimux did not take are destroyed with their volume", {
      volume: id,
      dataset: entry.name,
      snapshots: listed(foreign),
    });
  const origin = shownValue(entry, "origin");
  if (origin !== undefined && names.isOwnOrigin(origin)) await zfs.destroy(origin, { deferred: true }, call.signal);
  for (const pauseMs of [...pausesMs, undefined]) {
    try {
      return await zfs.destroy(entry.name, how, call.signal);
    } catch (error) {
      if (!(error instanceof ZfsError) || error.failure !== "busy" || pauseMs === undefined) throw error;
      await pause(pauseMs, call.signal);
    }
  }
}

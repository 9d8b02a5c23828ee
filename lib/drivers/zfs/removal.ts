import type { Call } from "../../core/call.ts";
import { pause } from "../../core/time.ts";
import { isDiscarded, isTemporary, isVolumeId, stagingOf } from "./names.ts";
import { otherOwner, ownValue, property, shownValue, whyNotVolume } from "./properties.ts";
import { refuseWhileCopied } from "./protected.ts";
import { dropSources, isSnapshot, removeStaging } from "./sources.ts";
import type { ZfsStorage } from "./storage.ts";
import { volumeIn, volumePropertyNames, volumeQuery, type ZfsVolume } from "./volume.ts";
import { type DestroyOptions, type Entries, type Entry, ZfsError } from "./zfs.ts";

/** The pauses before a busy dataset is tried again, in milliseconds. */
const busyPausesMs = [300, 700, 1500];

/** A dataset to remove, with its snapshots and children. */
interface Family {
  readonly entry: Entry;
  readonly below: readonly Entry[];
}

const belowProperties = [
  ...["type", "guid", "clones", "defer_destroy", "userrefs", property.snapshotName, property.managed],
];

const nameOf = ({ name }: Entry): string => name.slice(name.indexOf("@") + 1);

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
function obstacle(
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

/**
 * Removes a volume, with the rest of interrupted creations of it; success when there is none. Throws "failed-precondition" when it
 * cannot be removed, with nothing changed. `before` gets the volume right before the first change.
 */
export async function removeVolume(
  storage: ZfsStorage,
  id: string,
  before: (volume: ZfsVolume) => Promise<void>,
  call: Call,
): Promise<void> {
  if (!isVolumeId(id)) return;
  const { zfs, names } = storage;
  // With finishRename a missing name costs requests, so the staging copy is read only for volumes that may have one.
  const found = await inspect(storage, id, zfs.finishRename ? [] : [names.staging(id)], call);
  const { family } = found;
  if (family) {
    await refuseWhileCopied(storage, `volume "${id}"`, family.below, call);
    refuse(storage, id, family);
    const volume = volumeIn(id, family.entry, storage.settings);
    if (volume) await before(volume);
  }
  // Most volumes have no snapshots and were not made from anything.
  const simple = family?.below.length === 0 && shownValue(family.entry, property.sourceKind) === undefined;
  const known = simple || !zfs.finishRename ? found : await inspect(storage, id, [names.staging(id)], call);
  await removeInspected(storage, id, known, call);
  await destroyTombstones(storage, call);
}

/** Throws "failed-precondition" for what cannot be removed. */
function refuse(storage: ZfsStorage, id: string, family: Family): void {
  const found = obstacle(storage, family);
  if (found && !(found.passing && storage.settings.dependents === "tombstone"))
    throw storage.error("failed-precondition", `volume "${id}" cannot be deleted: ${found.why}`);
}

async function removeInspected(
  storage: ZfsStorage,
  id: string,
  { family, entries }: Inspection,
  call: Call,
): Promise<void> {
  const { zfs, names } = storage;
  const staging = names.staging(id);
  if (family && entries.has(staging) && (await zfs.finishRename?.(staging, family.entry.name, call.signal)))
    return removeInspected(storage, id, await inspect(storage, id, [staging], call), call);
  if (family) {
    refuse(storage, id, family);
    if (obstacle(storage, family)) await setAside(storage, id, family.entry, call);
    else await destroyWith(storage, id, family, call);
  }
  if (entries.has(staging)) await removeStaging(storage, staging, call);
  if (!family || isUnfinishedCopy(family.entry)) await dropSources(storage, id, call);
}

const isUnfinishedCopy = (entry: Entry): boolean =>
  shownValue(entry, property.sourceKind) !== undefined && ownValue(entry, property.success) !== "true";

/** A volume, undefined where there is none, and everything else that was read. */
interface Inspection {
  readonly family: Family | undefined;
  readonly entries: Entries;
}

/** Reads a volume with its snapshots and children, and other datasets. Throws "failed-precondition" for another owner's. */
async function inspect(storage: ZfsStorage, id: string, others: readonly string[], call: Call): Promise<Inspection> {
  const { names, zfs, settings } = storage;
  const dataset = names.dataset(id);
  const query = volumeQuery(settings, names, id);
  const properties = [...new Set([...query.properties, ...belowProperties])];
  const entries = await zfs.family(dataset, { names: [...query.names, ...others], properties }, call.signal);
  const entry = entries.get(dataset);
  if (!entry) return { family: undefined, entries };
  const isOwn = ownValue(entry, property.tombstone) === id;
  const why = isOwn ? otherOwner(entry, settings.marks) : whyNotVolume(id, entry, settings.marks);
  if (why === undefined) return { family: { entry, below: belowOf(dataset, entries) }, entries };
  const text = isOwn ? `belongs to ${why}` : why;
  throw storage.notOwn(`the dataset ${dataset} is not a volume of this connection: it ${text}`);
}

const belowOf = (dataset: string, entries: Entries): readonly Entry[] =>
  [...entries.values()].filter(({ name }) => name.startsWith(`${dataset}@`) || name.startsWith(`${dataset}/`));

/**
 * Destroys a volume with its snapshots: exactly those that were inspected, and only with it. A snapshot that was taken for this clone
 * goes, too: it is destroyed (deferred) first, so that no interruption leaves it behind.
 */
async function destroyWith(storage: ZfsStorage, id: string, { entry, below }: Family, call: Call): Promise<void> {
  const { zfs, settings, names } = storage;
  const { protocol } = settings;
  const mountpoint = shownValue(entry, "mountpoint");
  const mounted = shownValue(entry, "mounted") === "yes" && mountpoint !== undefined;
  if (mounted && protocol === "zfs-local" && mountpoint === "legacy")
    throw new ZfsError("used", `${entry.name} is mounted on its node`);
  const how: DestroyOptions = {
    snapshots: below.map(nameOf),
    ...(mounted && protocol !== "zfs-local" && { served: { protocol, mountpoint } }),
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
  for (const pauseMs of [...busyPausesMs, undefined]) {
    try {
      return await zfs.destroy(entry.name, how, call.signal);
    } catch (error) {
      if (!(error instanceof ZfsError) || error.failure !== "busy" || pauseMs === undefined) throw error;
      await pause(pauseMs, call.signal);
    }
  }
}

/** Renames a volume that something still needs to a tombstone. Its id is recorded before the rename. */
async function setAside({ zfs, names, settings }: ZfsStorage, id: string, entry: Entry, call: Call): Promise<void> {
  const guid = shownValue(entry, "guid");
  if (guid === undefined)
    throw new ZfsError(
      "invalid",
      `${entry.name} is still needed and cannot be set aside, because the storage does not show its guid; delete what needs it` +
        ` first (over the API TrueNAS renames datasets from 25.10 on)`,
    );
  const to = names.tombstone(guid);
  const quiet = settings.volumes.type === "filesystem" ? { sharenfs: "off", sharesmb: "off", canmount: "noauto" } : {};
  await zfs.set(entry.name, { [property.tombstone]: id, ...quiet }, call.signal);
  await zfs.rename(entry.name, to, call.signal);
  await zfs.set(to, { [property.managed]: "false" }, call.signal);
}

/** Destroys the tombstones that nothing needs any more, repeatedly: one may be the origin of another. */
export async function destroyTombstones(storage: ZfsStorage, call: Call): Promise<void> {
  const { names, zfs, settings } = storage;
  if (settings.dependents !== "tombstone") return;
  for (let found = true; found; ) {
    found = false;
    const all = await zfs.below(names.parent, [settings.volumes.type], volumePropertyNames(settings), 1, call.signal);
    const own = all.filter(each => names.isTombstone(each.name) && otherOwner(each, settings.marks) === undefined);
    for (const entry of own) {
      const entries = await zfs.family(entry.name, { names: [names.pool], properties: belowProperties }, call.signal);
      const family = { entry, below: belowOf(entry.name, entries) };
      if (obstacle(storage, family)) continue;
      await destroyWith(storage, ownValue(entry, property.tombstone) ?? "", family, call);
      found = true;
    }
  }
}

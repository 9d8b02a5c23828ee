import type { Call } from "../../core/call.ts";
import type { VolumeSpec } from "../driver.ts";
import { belowProperties, destroyWith, type Family, familyOf, obstacle } from "./dependents.ts";
import { isVolumeId } from "./names.ts";
import { otherOwner, ownValue, property, shownValue, whyNotVolume } from "./properties.ts";
import { refuseWhileCopied } from "./protected.ts";
import { dropSourceOf, dropSources, removeStaging } from "./sources.ts";
import type { ZfsStorage } from "./storage.ts";
import { removeFreed, renameToTombstone } from "./tombstones.ts";
import { volumeIn, volumeQuery, type ZfsVolume } from "./volume.ts";
import { type Entries, type Entry, parentAbsent, ZfsError } from "./zfs.ts";

/** As in VolumeStore.remove. */
export type BeforeRemoval = (volume: ZfsVolume, withShare?: boolean) => Promise<void>;

/**
 * Removes a volume, with the rest of interrupted creations of it; success when there is none. Throws "failed-precondition" when it
 * cannot be removed, with nothing changed. `before` gets the volume right before the first change.
 */
export async function removeVolume(storage: ZfsStorage, id: string, before: BeforeRemoval, call: Call): Promise<void> {
  if (!isVolumeId(id)) return;
  const { zfs, names, settings } = storage;
  // With finishRename a missing name costs requests, so the staging copy is read only for volumes that may have one.
  const found = await inspect(storage, id, zfs.finishRename ? [] : [names.staging(id)], call);
  const { family } = found;
  // Most volumes have no snapshots and were not made from anything.
  const simple = family?.below.length === 0 && ownValue(family.entry, property.sourceKind) === undefined;
  const alone = simple && shownValue(family.entry, "origin") === undefined;
  const withShare = alone && (await zfs.takesShares?.(settings.protocol, call.signal)) === true;
  if (family) {
    await refuseWhileCopied(storage, `volume "${id}"`, family.below, call);
    refuse(storage, id, family);
    await refuseRename(storage, id, family, call);
    const volume = volumeIn(id, family.entry, settings);
    if (volume) await before(volume, withShare);
  }
  const known = simple || !zfs.finishRename ? found : await inspect(storage, id, [names.staging(id)], call);
  if (known !== found) refuseOther(family, known.family);
  await removeInspected(storage, id, known, call);
  await removeFreed(storage, [shownValue(family?.entry, "origin")], call);
}

/** Removes the rest of a failed creation, but nothing of another request. False if another controller has finished the volume meanwhile. */
export async function undoCreation(storage: ZfsStorage, { name, source }: VolumeSpec, call: Call): Promise<boolean> {
  const { zfs, names, settings } = storage;
  const id = names.idOf(name);
  const others = new Error("the volume belongs to another request");
  let isFinished = false;
  const refuseOtherRequest = async (volume: ZfsVolume) => {
    isFinished = volume.finished && volume.name === name;
    if (volume.finished || volume.name !== name) throw others;
  };
  try {
    const entries = await zfs.read(volumeQuery(settings, names, id), call.signal);
    if (volumeIn(id, entries.get(names.dataset(id)), settings))
      await removeVolume(storage, id, refuseOtherRequest, call);
    else {
      await removeStaging(storage, names.staging(id), call);
      if (source) await dropSources(storage, id, call);
    }
  } catch (error) {
    if (error !== others) throw error;
    // What this call has copied after that becomes no volume any more.
    if (isFinished && source) await removeStaging(storage, names.staging(id), call);
  }
  return !isFinished;
}

/** Throws "failed-precondition" for what cannot be removed. */
function refuse(storage: ZfsStorage, id: string, family: Family): void {
  const found = obstacle(storage, family);
  if (found && !(found.passing && storage.settings.dependents === "tombstone"))
    throw storage.error("failed-precondition", `volume "${id}" cannot be deleted: ${found.why}`);
}

/** Throws "failed-precondition" for a volume that something needs, and that cannot wait for its end under another name. */
async function refuseRename(storage: ZfsStorage, id: string, family: Family, call: Call): Promise<void> {
  const found = obstacle(storage, family);
  const why = found && (await storage.zfs.whyNotRenamed?.(family.entry.name, call.signal));
  if (why === undefined) return;
  const text = `${found?.why}; it cannot be set aside until then, because it ${why}`;
  throw storage.error("failed-precondition", `volume "${id}" cannot be deleted: ${text}`);
}

/** Throws "changed" for a volume that another controller has made or finished since it was inspected. */
function refuseOther(before: Family | undefined, now: Family | undefined): void {
  const shown = (family: Family | undefined) =>
    family &&
    [
      ...["guid", "creation"].map(key => shownValue(family.entry, key)),
      ownValue(family.entry, property.success),
    ].join();
  if (now && shown(before) !== shown(now))
    throw new ZfsError("changed", `${now.entry.name} was changed by another call`);
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
    await refuseRename(storage, id, family, call);
    if (obstacle(storage, family)) await renameToTombstone(storage, id, family.entry, call);
    else await destroyWith(storage, id, family, call);
  }
  if (entries.has(staging)) await removeStaging(storage, staging, call);
  const volume = family && volumeIn(id, family.entry, storage.settings);
  if (!family || isUnfinishedCopy(family.entry)) await dropSources(storage, id, call);
  else if (volume) await dropSourceOf(storage, volume, call);
}

const isUnfinishedCopy = (entry: Entry): boolean =>
  ownValue(entry, property.sourceKind) !== undefined && ownValue(entry, property.success) !== "true";

/** A volume, undefined where there is none, and everything else that was read. */
interface Inspection {
  readonly family: Family | undefined;
  readonly entries: Entries;
}

/** Reads a volume with its snapshots and children, and other datasets. Throws "failed-precondition" for another owner's, and "pool-absent". */
async function inspect(storage: ZfsStorage, id: string, others: readonly string[], call: Call): Promise<Inspection> {
  const { names, zfs, settings } = storage;
  const dataset = names.dataset(id);
  const query = volumeQuery(settings, names, id);
  const properties = [...new Set([...query.properties, ...belowProperties])];
  // A target is removed before its zvol, and an SMB share is unmounted before.
  const onlyDestroyed = settings.protocol === "nfs" || settings.protocol === "zfs-local";
  const asked = { names: [...query.names, ...others], properties };
  const entries = await zfs.family(dataset, asked, call.signal, onlyDestroyed);
  const entry = entries.get(dataset);
  if (!entry && !entries.has(names.parent)) throw parentAbsent(names.parent);
  if (!entry) return { family: undefined, entries };
  const isOwn = ownValue(entry, property.tombstone) === id;
  const why = isOwn ? otherOwner(entry, settings.marks) : whyNotVolume(id, entry, settings.marks);
  if (why === undefined) return { family: familyOf(entry, entries), entries };
  const text = isOwn ? `belongs to ${why}` : why;
  throw storage.notOwn(`the dataset ${dataset} is not a volume of this connection: it ${text}`);
}

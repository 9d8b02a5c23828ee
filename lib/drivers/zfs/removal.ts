import type { Call } from "../../core/call.ts";
import { pause } from "../../core/pause.ts";
import { assetLook, assetProperties, ownValue, shownValue } from "./asset.ts";
import { strangerOf, whyNotVolume } from "./marks.ts";
import { isVolumeId, stagingOf } from "./names.ts";
import { isSnapshot } from "./sources.ts";
import type { Space } from "./space.ts";
import { removeStaging } from "./staging.ts";
import { property } from "./user-properties.ts";
import { type Destruction, type Entries, type Entry, ZfsError } from "./zfs.ts";

/** How often a busy dataset is tried again, and after how many milliseconds. */
const busyPausesMs = [300, 700, 1500];

/** What is known of a dataset that is to be removed. */
interface Doomed {
  readonly entry: Entry;
  readonly below: readonly Entry[];
}

const belowProperties = ["type", "guid", "clones", "defer_destroy", property.snapshotName, property.managed];

const nameOf = ({ name }: Entry): string => name.slice(name.indexOf("@") + 1);

/** The snapshots that go with a volume: what was looked at, and nothing that somebody takes meanwhile. */
const snapshotsOf = (below: readonly Entry[]): readonly string[] => below.map(nameOf);

/** What keeps a volume from being removed, in words; undefined when nothing does. */
function obstacle({ entry, below }: Doomed): { readonly why: string; readonly passing: boolean } | undefined {
  const child = below.find(each => shownValue(each, "type") !== "snapshot");
  if (child) return { why: `the dataset ${child.name}, which csimux did not make, lies below it`, passing: false };
  const snapshots = below.filter(isSnapshot).map(nameOf);
  if (snapshots.length > 0)
    return { why: `it has snapshots: ${snapshots.slice(0, 5).join(", ")}; delete them first`, passing: true };
  // The copy that it was made of is nobody's volume.
  const others = (each: Entry) => shownValue(each, "clones")?.split(",") ?? [];
  const clones = below.flatMap(others).filter(name => name !== "" && name !== stagingOf(entry.name));
  if (clones.length === 0) return undefined;
  return { why: `${entry.name} is the origin of ${clones.slice(0, 5).join(", ")}; delete those first`, passing: true };
}

/** What is to be removed. Throws "failed-precondition" when it cannot be, before anything of it is undone. */
export async function removable(space: Space, id: string, call: Call): Promise<Entry | undefined> {
  if (!isVolumeId(id)) return undefined;
  // Whether one was being made matters only when it goes; on TrueNAS a name that is missing costs requests.
  const { doomed } = await look(space, id, [], call);
  const found = doomed && obstacle(doomed);
  if (found && !(found.passing && space.settings.dependents === "tombstone"))
    throw space.error("failed-precondition", `volume "${id}" cannot be deleted: ${found.why}`);
  return doomed?.entry;
}

/** Removes a volume, with what interrupted creations of it left. Success when there is nothing. `seen`: what removable() said. */
export async function removeVolume(space: Space, id: string, call: Call, seen?: Entry): Promise<void> {
  if (!isVolumeId(id)) return;
  if (!seen || !(await removedAlone(space, seen, call))) await removeWhole(space, id, call);
  await reap(space, call);
}

/** Most volumes have nothing below them and no copy under way; ZFS itself refuses where that is not so, or no longer. */
async function removedAlone(space: Space, entry: Entry, call: Call): Promise<boolean> {
  if (shownValue(entry, property.sourceKind) !== undefined) return false;
  try {
    await destroyed(space, entry, {}, call);
    return true;
  } catch (error) {
    if (error instanceof ZfsError && error.failure !== "busy") return false;
    throw error;
  }
}

async function removeWhole(space: Space, id: string, call: Call): Promise<void> {
  const { zfs, names } = space;
  const { doomed, beside } = await look(space, id, [names.staging(id)], call);
  const staging = beside.has(names.staging(id));
  if (doomed && staging && (await zfs.settle?.(names.staging(id), doomed.entry.name, call.signal)))
    return removeWhole(space, id, call);
  if (doomed) {
    const found = obstacle(doomed);
    if (!found) await destroyed(space, doomed.entry, { snapshots: snapshotsOf(doomed.below) }, call);
    else if (found.passing && space.settings.dependents === "tombstone") await setAside(space, id, doomed.entry, call);
    else throw space.error("failed-precondition", `volume "${id}" cannot be deleted: ${found.why}`);
  }
  if (staging) await removeStaging(space, names.staging(id), call);
}

/** What there is of a volume. */
interface Remains {
  readonly doomed: Doomed | undefined;
  /** What else was found. */
  readonly beside: Entries;
}

/** Reads a volume with what lies below it, and others by their names. */
async function look(space: Space, id: string, others: readonly string[], call: Call): Promise<Remains> {
  const { names, zfs, settings } = space;
  const dataset = names.dataset(id);
  const seen = assetLook(settings, names, id);
  const shared = settings.sharing["sharesmb"] === undefined ? [] : ["sharesmb"];
  const properties = [...new Set([...seen.properties, ...belowProperties, ...shared])];
  const all = await zfs.family(dataset, { names: [...seen.names, ...others], properties }, call.signal);
  const entry = all.get(dataset);
  if (!entry) return { doomed: undefined, beside: all };
  const strange =
    ownValue(entry, property.tombstone) === id
      ? strangerOf(entry, settings.marks)
      : whyNotVolume(id, entry, settings.marks);
  if (strange === undefined) return { doomed: { entry, below: belowOf(dataset, [...all.values()]) }, beside: all };
  throw space.error(
    "failed-precondition",
    `the dataset ${dataset} is no volume of this connection: it ${strange}; it is left as it is`,
  );
}

const belowOf = (dataset: string, all: readonly Entry[]): readonly Entry[] =>
  all.filter(({ name }) => name.startsWith(`${dataset}@`) || name.startsWith(`${dataset}/`));

/** A snapshot that was made for this clone goes with it: it is marked first, so that no interruption leaves it behind. */
async function destroyed(space: Space, entry: Entry, kind: Destruction, call: Call): Promise<void> {
  const { zfs, settings, names } = space;
  const mountpoint = shownValue(entry, "mountpoint");
  const mounted = shownValue(entry, "mounted") === "yes";
  const exports = settings.protocol === "nfs" && mounted && mountpoint;
  const how: Destruction = {
    ...kind,
    shared: mounted && settings.protocol !== "zfs-local",
    ...(exports && { exported: { mountpoint: exports, sharenfs: ownValue(entry, "sharenfs") } }),
    sharesmb: ownValue(entry, "sharesmb"),
  };
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

/** Gives a volume another name, under which it stays until nothing needs it. What it was is written down before it is gone. */
async function setAside(space: Space, id: string, entry: Entry, call: Call): Promise<void> {
  const { zfs, names, settings } = space;
  const guid = shownValue(entry, "guid");
  if (guid === undefined)
    throw new ZfsError(
      "invalid",
      `${entry.name} is still needed and cannot be set aside: the storage tells no guid of it; delete what needs it first` +
        ` (over the API TrueNAS renames datasets from 25.10 on)`,
    );
  const to = names.tombstone(guid);
  const quiet = settings.volumes.type === "filesystem" ? { sharenfs: "off", sharesmb: "off", canmount: "noauto" } : {};
  await zfs.set(entry.name, { [property.tombstone]: id, ...quiet }, call.signal);
  await zfs.rename(entry.name, to, call.signal);
  await zfs.set(to, { [property.managed]: "false" }, call.signal);
}

/** Destroys volumes that were set aside and that nothing needs any more, until there is none: one may be the origin of another. */
export async function reap(space: Space, call: Call): Promise<void> {
  const { names, zfs, settings } = space;
  if (settings.dependents !== "tombstone") return;
  for (let found = true; found; ) {
    found = false;
    const all = await zfs.below(names.parent, [settings.volumes.type], assetProperties(settings), 1, call.signal);
    const own = all.filter(each => names.isTombstone(each.name) && strangerOf(each, settings.marks) === undefined);
    for (const entry of own) {
      const all = await zfs.family(entry.name, { names: [names.pool], properties: belowProperties }, call.signal);
      const below = belowOf(entry.name, [...all.values()]);
      if (obstacle({ entry, below })) continue;
      await destroyed(space, entry, { snapshots: snapshotsOf(below) }, call);
      found = true;
    }
  }
}

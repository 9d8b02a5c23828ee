import type { Call } from "../../core/call.ts";
import { pause } from "../../core/time.ts";
import { isDiscarded, isTemporary, isVolumeId, stagingOf } from "./names.ts";
import { otherOwner, property, whyNotVolume } from "./properties.ts";
import { dropSources, isSnapshot, removeStaging } from "./sources.ts";
import type { ConnectionContext } from "./storage.ts";
import { ownValue, shownValue, volumeIn, volumePropertyNames, volumeQuery, type ZfsVolume } from "./volume.ts";
import { type DestroyOptions, type Entries, type Entry, ZfsError } from "./zfs.ts";

/** How often a busy dataset is tried again, and after how many milliseconds. */
const busyPausesMs = [300, 700, 1500];

/** What is known of a dataset that is to be removed. */
interface RemovalPlan {
  readonly entry: Entry;
  readonly below: readonly Entry[];
}

const belowProperties = [
  "type",
  "guid",
  "clones",
  "defer_destroy",
  "userrefs",
  property.snapshotName,
  property.managed,
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

/** What keeps a volume from being removed, in words; undefined when nothing does. */
function obstacle(
  { settings }: ConnectionContext,
  { entry, below }: RemovalPlan,
): { readonly why: string; readonly passing: boolean } | undefined {
  const child = below.find(each => shownValue(each, "type") !== "snapshot");
  if (child) return { why: `the dataset ${child.name}, which csimux did not make, lies below it`, passing: false };
  const foreign = foreignOf(below);
  if (settings.foreignSnapshots === "keep" && foreign.length > 0) {
    const why = `it has snapshots that csimux did not take: ${listed(foreign.map(nameOf))}; destroy them first (zfs.foreignSnapshots: keep)`;
    return { why, passing: false };
  }
  const held = foreign.filter(each => (shownValue(each, "userrefs") ?? "0") !== "0");
  if (held.length > 0)
    return {
      why: `its snapshots are held: ${listed(held.map(nameOf))}; see zfs holds, and release them first`,
      passing: false,
    };
  const snapshots = below.filter(isSnapshot).map(nameOf);
  if (snapshots.length > 0) return { why: `it has snapshots: ${listed(snapshots)}; delete them first`, passing: true };
  // The copy that it was made of is nobody's volume.
  const others = (each: Entry) => shownValue(each, "clones")?.split(",") ?? [];
  const clones = below.flatMap(others).filter(name => name !== "" && name !== stagingOf(entry.name));
  if (clones.length === 0) return undefined;
  return { why: `${entry.name} is the origin of ${listed(clones)}; delete those first`, passing: true };
}

/**
 * Removes a volume, with what interrupted creations of it left. Success when there is nothing. Throws "failed-precondition" when it
 * cannot be removed, with nothing changed. `before` gets the volume right before the first change.
 */
export async function removeVolume(
  space: ConnectionContext,
  id: string,
  before: (asset: ZfsVolume) => Promise<void>,
  call: Call,
): Promise<void> {
  if (!isVolumeId(id)) return;
  const { zfs, names } = space;
  // Whether one was being made matters only when it goes; where that is a matter of `settle`, a name that is missing costs requests.
  const seen = await inspect(space, id, zfs.finishRename ? [] : [names.staging(id)], call);
  if (seen.plan) {
    refuse(space, id, seen.plan);
    const asset = volumeIn(id, seen.plan.entry, space.settings);
    if (asset) await before(asset);
  }
  const alone = seen.plan && isAlone(seen.plan);
  await removeInspected(
    space,
    id,
    alone || !zfs.finishRename ? seen : await inspect(space, id, [names.staging(id)], call),
    call,
  );
  await destroyTombstones(space, call);
}

/** Most volumes have nothing below them and were made of nothing. */
const isAlone = ({ entry, below }: RemovalPlan): boolean =>
  below.length === 0 && shownValue(entry, property.sourceKind) === undefined;

/** Throws "failed-precondition" for what cannot be removed. */
function refuse(space: ConnectionContext, id: string, doomed: RemovalPlan): void {
  const found = obstacle(space, doomed);
  if (found && !(found.passing && space.settings.dependents === "tombstone"))
    throw space.error("failed-precondition", `volume "${id}" cannot be deleted: ${found.why}`);
}

async function removeInspected(
  space: ConnectionContext,
  id: string,
  { plan: doomed, beside }: FoundDatasets,
  call: Call,
): Promise<void> {
  const { zfs, names } = space;
  const staging = names.staging(id);
  if (doomed && beside.has(staging) && (await zfs.finishRename?.(staging, doomed.entry.name, call.signal)))
    return removeInspected(space, id, await inspect(space, id, [staging], call), call);
  if (doomed) {
    refuse(space, id, doomed);
    if (obstacle(space, doomed)) await setAside(space, id, doomed.entry, call);
    else await destroyWith(space, id, doomed, call);
  }
  if (beside.has(staging)) await removeStaging(space, staging, call);
  if (!doomed || isBegun(doomed.entry)) await dropSources(space, id, call);
}

/** Whether it was being made from something else, and is not complete. */
const isBegun = (entry: Entry): boolean =>
  shownValue(entry, property.sourceKind) !== undefined && ownValue(entry, property.success) !== "true";

/** What there is of a volume. */
interface FoundDatasets {
  readonly plan: RemovalPlan | undefined;
  /** What else was found. */
  readonly beside: Entries;
}

/** Reads a volume with what lies below it, and others by their names. */
async function inspect(
  space: ConnectionContext,
  id: string,
  others: readonly string[],
  call: Call,
): Promise<FoundDatasets> {
  const { names, zfs, settings } = space;
  const dataset = names.dataset(id);
  const seen = volumeQuery(settings, names, id);
  const properties = [...new Set([...seen.properties, ...belowProperties])];
  const all = await zfs.family(dataset, { names: [...seen.names, ...others], properties }, call.signal);
  const entry = all.get(dataset);
  if (!entry) return { plan: undefined, beside: all };
  const strange =
    ownValue(entry, property.tombstone) === id
      ? otherOwner(entry, settings.marks)
      : whyNotVolume(id, entry, settings.marks);
  if (strange === undefined) return { plan: { entry, below: belowOf(dataset, [...all.values()]) }, beside: all };
  throw space.error(
    "failed-precondition",
    `the dataset ${dataset} is no volume of this connection: it ${strange}; it is left as it is`,
  );
}

const belowOf = (dataset: string, all: readonly Entry[]): readonly Entry[] =>
  all.filter(({ name }) => name.startsWith(`${dataset}@`) || name.startsWith(`${dataset}/`));

/**
 * Destroys a volume with its snapshots: exactly those that were looked at, and only with it. A snapshot that was made for this clone
 * goes with it, too: it is marked first, so that no interruption leaves it behind.
 */
async function destroyWith(
  space: ConnectionContext,
  id: string,
  { entry, below }: RemovalPlan,
  call: Call,
): Promise<void> {
  const { zfs, settings, names } = space;
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

/** Gives a volume another name, under which it stays until nothing needs it. What it was is written down before it is gone. */
async function setAside(space: ConnectionContext, id: string, entry: Entry, call: Call): Promise<void> {
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
export async function destroyTombstones(space: ConnectionContext, call: Call): Promise<void> {
  const { names, zfs, settings } = space;
  if (settings.dependents !== "tombstone") return;
  for (let found = true; found; ) {
    found = false;
    const all = await zfs.below(names.parent, [settings.volumes.type], volumePropertyNames(settings), 1, call.signal);
    const own = all.filter(each => names.isTombstone(each.name) && otherOwner(each, settings.marks) === undefined);
    for (const entry of own) {
      const all = await zfs.family(entry.name, { names: [names.pool], properties: belowProperties }, call.signal);
      const below = belowOf(entry.name, [...all.values()]);
      if (obstacle(space, { entry, below })) continue;
      await destroyWith(space, ownValue(entry, property.tombstone) ?? "", { entry, below }, call);
      found = true;
    }
  }
}

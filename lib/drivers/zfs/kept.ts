import type { Call } from "../../core/call.ts";
import { quoted } from "../../io/script.ts";
import type { Kept, KeptAbility, Needing } from "../kept.ts";
import type { Source } from "../volume.ts";
import { belowProperties } from "./dependents.ts";
import {
  datasetOf,
  isDiscarded,
  isVolumeId,
  keyOfCopySnapshot,
  keyOfTag,
  longestName,
  snapshotNameOf,
  temporaryFor,
} from "./names.ts";
import { bytesOf, isSnapshot, markProperties, otherOwner, ownValue, property, shownValue } from "./properties.ts";
import { protectedOf } from "./protected.ts";
import type { ZfsStorage } from "./storage.ts";
import type { Entry } from "./zfs.ts";

const properties = [...belowProperties, "used", property.tombstone, ...markProperties];

/** The most snapshots whose holds are named; their names are words of one command (execve(2): 128 KiB). */
const mostHeld = 256;

/** The most commands for one thing; once they have been run, the next ones are shown. */
const mostReleases = 3;

/** What frees a snapshot, in words. */
const frees: Readonly<Record<Exclude<Kept["what"], "deleted-volume">, string>> = {
  "deleted-snapshot": "ZFS destroys it with the last clone or hold",
  "foreign-snapshot": "the program or person that took it has to free it",
  "copy-snapshot": "csimux removes it at the end of the copy: csimux copies list",
  snapshot: "when it is deleted, ZFS keeps it until the last clone or hold ends",
  "clone-source": "ZFS destroys it with the clone",
};

/** Everything that lies where a connection has its volumes and detached snapshots. */
interface Known {
  readonly storage: ZfsStorage;
  readonly all: ReadonlyMap<string, Entry>;
  /** Snapshots and children, by their dataset. */
  readonly below: ReadonlyMap<string, readonly Entry[]>;
  /** Holds and copies, by snapshot. */
  readonly holds: ReadonlyMap<string, readonly Needing[]>;
}

/** What datasets and snapshots keep on the storage; as KeptAbility. */
export const datasetKept = (storage: ZfsStorage): KeptAbility => ({
  async list(call) {
    const { zfs, names } = storage;
    const types = ["filesystem", "volume", "snapshot"] as const;
    const lists = await Promise.all([
      zfs.below(names.parent, types, properties, 2, call.signal),
      zfs.below(names.detachedParent, types, properties, 3, call.signal),
    ]);
    const all = new Map(lists.flat().map(entry => [entry.name, entry]));
    const below = new Map<string, Entry[]>();
    for (const entry of all.values()) {
      const above = entry.name.slice(0, Math.max(0, entry.name.search(/[@/][^@/]*$/)));
      const others = below.get(above);
      if (others) others.push(entry);
      else below.set(above, [entry]);
    }
    const own = [...all.values()].filter(entry => isOwn(storage, entry));
    const snapshots = own.flatMap(({ name }) => below.get(name) ?? []).filter(({ name }) => name.includes("@"));
    const known = { storage, all, below, holds: await holdsOf(storage, snapshots, call) };
    return own.flatMap(entry => {
      if (names.isTombstone(entry.name)) return [deletedVolume(known, entry)];
      const inside = (below.get(entry.name) ?? []).filter(({ name }) => name.includes("@"));
      return inside.flatMap(each => keptSnapshot(known, each) ?? []);
    });
  },
});

/** Whether a dataset is a volume, a detached snapshot or a tombstone of this connection. */
const isOwn = ({ names, settings }: ZfsStorage, entry: Entry): boolean =>
  !entry.name.includes("@") &&
  otherOwner(entry, settings.marks) === undefined &&
  (ownValue(entry, property.managed) === "true" ||
    (names.isTombstone(entry.name) && ownValue(entry, property.tombstone) !== undefined));

/** The holds on snapshots. The API of TrueNAS tells only how many there are. */
async function holdsOf(
  { copying }: ZfsStorage,
  snapshots: readonly Entry[],
  call: Call,
): Promise<ReadonlyMap<string, readonly Needing[]>> {
  const isHeld = (entry: Entry) => bytesOf(shownValue(entry, "userrefs")) > 0n;
  const asked = snapshots.filter(each => isHeld(each) || keyOfCopySnapshot(each.name) !== undefined).slice(0, mostHeld);
  const held = asked.filter(isHeld).map(({ name }) => name);
  const tags = (await copying?.streams.tags(held, call.signal)) ?? [];
  const copies = copying && (await protectedOf(copying.storage, copying.streams, asked, call));
  const found = snapshots.map(entry => {
    const targets = copies?.get(entry.name) ?? [];
    const own = tags.filter(({ snapshot, tag }) => snapshot === entry.name && !(targets.length > 0 && keyOfTag(tag)));
    const needs: readonly Needing[] = [
      ...targets.map(({ target }) => ({ kind: "copy" as const, name: target })),
      ...own.map(({ tag }) => ({ kind: "hold" as const, name: tag })),
    ];
    return [entry.name, needs.length === 0 && isHeld(entry) ? [{ kind: "hold" as const, name: "" }] : needs] as const;
  });
  return new Map(found);
}

/** The id of the volume that a tombstone was; undefined for text that cannot be one. */
function deletedId(entry: Entry): string | undefined {
  const id = ownValue(entry, property.tombstone) ?? "";
  return isVolumeId(id) ? id : undefined;
}

/** What needs a snapshot: its clones, holds and copies. */
function needsOf({ storage, all, holds }: Known, entry: Entry): readonly Needing[] {
  const { names } = storage;
  const cloned = (shownValue(entry, "clones")?.split(",") ?? []).filter(each => each !== "");
  const clones = cloned.map((name): Needing => {
    const clone = all.get(name);
    const id = names.volumeOf(name);
    if (!clone || !isOwn(storage, clone)) return { kind: "object", name };
    if (id !== undefined) return { kind: "volume", name: id };
    const deleted = deletedId(clone);
    return deleted === undefined ? { kind: "object", name } : { kind: "deleted-volume", name: deleted };
  });
  return [...clones, ...(holds.get(entry.name) ?? [])];
}

/** How holds of other programs on a snapshot are given up: whole commands, which a person may repeat as they are. */
const releases = ({ name }: Entry, needs: readonly Needing[]): readonly string[] =>
  needs
    .filter(each => each.kind === "hold" && each.name !== "" && keyOfTag(each.name) === undefined)
    .filter(each => Math.max(each.name.length, name.length) <= longestName)
    .map(each => `zfs release ${quoted(each.name)} ${quoted(name)}`)
    .slice(0, mostReleases);

/** A tombstone, and what is left in it. */
function deletedVolume(known: Known, entry: Entry): Kept {
  const { settings } = known.storage;
  const id = deletedId(entry);
  const inside = known.below.get(entry.name) ?? [];
  const needs = inside.flatMap((each): readonly Needing[] => {
    if (!each.name.includes("@")) return [{ kind: "object", name: each.name }];
    const what = whatOf(each);
    const stays = what === "snapshot" || (what === "foreign-snapshot" && settings.foreignSnapshots === "keep");
    const self: Needing =
      what === "snapshot" && id !== undefined
        ? { kind: what, name: `${id}@${snapshotNameOf(each.name)}` }
        : { kind: "object", name: each.name };
    return [...(stays ? [self] : []), ...needsOf(known, each)];
  });
  const neededBy = [...new Map(needs.map(each => [`${each.kind} ${each.name}`, each])).values()];
  const end =
    settings.dependents !== "tombstone"
      ? "csimux destroys it only with zfs.deleteWithDependents: tombstone"
      : "csimux destroys it when nothing needs it any more, or at the next check of the health";
  return {
    ...{ what: "deleted-volume", name: entry.name, bytes: bytesOf(shownValue(entry, "used")), neededBy },
    of: id === undefined ? undefined : { kind: "volume", id },
    frees: end,
    commands: inside.flatMap(each => releases(each, needsOf(known, each))).slice(0, mostReleases),
  };
}

function whatOf(entry: Entry): Exclude<Kept["what"], "deleted-volume"> {
  if (temporaryFor(entry.name)) return "clone-source";
  if (keyOfCopySnapshot(entry.name) !== undefined) return "copy-snapshot";
  if (shownValue(entry, "defer_destroy") === "on" || isDiscarded(entry.name)) return "deleted-snapshot";
  return isSnapshot(entry) ? "snapshot" : "foreign-snapshot";
}

/** A snapshot that something needs, or that would be gone otherwise. */
function keptSnapshot(known: Known, entry: Entry): Kept | undefined {
  const what = whatOf(entry);
  const neededBy = needsOf(known, entry);
  if (neededBy.length === 0 && (what === "snapshot" || what === "foreign-snapshot")) return undefined;
  const isUnused = what === "clone-source" && neededBy.length === 0;
  const end = isUnused ? "csimux destroys it when that is made again, or deleted" : frees[what];
  return {
    ...{ what, name: entry.name, of: ofSnapshot(known.storage, entry), bytes: bytesOf(shownValue(entry, "used")) },
    ...{ neededBy, frees: end, commands: releases(entry, neededBy) },
  };
}

/** The CSI snapshot that a snapshot is or was, or what it was taken for. */
function ofSnapshot({ names }: ZfsStorage, entry: Entry): Source | undefined {
  const own = ownValue(entry, property.snapshotName);
  const volume = names.volumeOf(datasetOf(entry.name));
  if (own === undefined || volume === undefined) return temporaryFor(entry.name);
  return {
    kind: "snapshot",
    id: `${volume}@${isDiscarded(entry.name) ? names.snapshotName(own, volume) : snapshotNameOf(entry.name)}`,
  };
}

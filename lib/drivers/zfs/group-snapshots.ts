import type { Call } from "../../core/call.ts";
import type { GroupSnapshot, GroupSnapshotAbility } from "../driver.ts";
import { datasetOf, isSnapshotName, isVolumeId } from "./names.ts";
import { isSnapshot, otherOwner, ownValue, property, shownValue, tombstoneId } from "./properties.ts";
import { requireParent, snapshotOf, throwSnapshotFailure } from "./snapshots.ts";
import { snapshotProperties } from "./sources.ts";
import type { ZfsStorage } from "./storage.ts";
import { removeFreed } from "./tombstones.ts";
import { snapshotValues } from "./values.ts";
import { volumeIn, volumePropertyNames, type ZfsVolume } from "./volume.ts";
import { type Entry, untrue } from "./zfs.ts";

/** How often the snapshots of a group are read. A deletion reads each time those of volumes that were set aside since the last. */
const mostReads = 5;

/** Snapshots of several volumes at one moment: `zfs snapshot a@x b@x` takes all of them or none. */
export function datasetGroupSnapshots(storage: ZfsStorage): GroupSnapshotAbility {
  const { names, zfs, settings } = storage;

  async function volumesOf(ids: readonly string[], call: Call): Promise<readonly ZfsVolume[]> {
    const query = {
      names: [names.pool, ...ids.filter(isVolumeId).map(id => names.dataset(id))],
      properties: volumePropertyNames(settings),
    };
    const entries = await zfs.read(query, call.signal);
    return ids.map(id => {
      const volume = isVolumeId(id) ? volumeIn(id, entries.get(names.dataset(id)), settings) : undefined;
      if (volume?.finished) return volume;
      throw storage.error("not-found", `volume "${id.slice(0, 128)}" does not exist`);
    });
  }

  /** The members of this connection, not of another one with the same parent. */
  const ownOf = (members: readonly Entry[]): readonly Entry[] =>
    members.filter(each => otherOwner(each, settings.marks) === undefined);

  /** The CSI snapshots of this name, of a group or of a single volume. */
  async function membersOf(own: string, call: Call): Promise<readonly Entry[]> {
    const wanted = { name: own, parent: names.parent, copies: undefined };
    for (let read = 1; read <= mostReads; read++) {
      const { holders } = await zfs.snapshotsNamed(wanted, { names: [names.pool], properties: ["type"] }, call.signal);
      if (holders.length === 0) return [];
      const listed = holders.map(each => `${each}@${own}`);
      const entries = await zfs.read({ names: [names.pool, ...listed], properties: snapshotProperties }, call.signal);
      // A volume that was set aside in between has taken its snapshot along, under another name.
      if (listed.every(each => entries.has(each))) return [...entries.values()].filter(isSnapshot);
    }
    throw storage.error("aborted", `volumes with the snapshot "${own}" are being deleted; retry`);
  }

  /** The snapshots of a group, without one of the same name that was taken of a single volume. */
  const grouped = async (id: string, call: Call): Promise<readonly Entry[]> =>
    (await membersOf(id, call)).filter(each => ownValue(each, property.group) === id);

  function existing(name: string, own: string, volumes: readonly ZfsVolume[], members: readonly Entry[]) {
    if (members.length === 0) throw untrue(`taken the snapshots @${own}`);
    const wanted = new Set(volumes.map(({ dataset }) => `${dataset}@${own}`));
    const equal = members.length === wanted.size && members.every(each => wanted.has(each.name));
    if (equal && members.every(each => ownValue(each, property.group) === own)) return groupOf(own, members);
    throw storage.error(
      "already-exists",
      `group snapshot "${name.slice(0, 128)}" exists of other volumes, or one of them has a snapshot of this name`,
    );
  }

  function groupOf(id: string, members: readonly Entry[]): GroupSnapshot {
    const snapshots = members
      .map(entry => {
        const volume = names.volumeOf(datasetOf(entry.name)) ?? tombstoneId(entry) ?? "";
        return snapshotOf(`${volume}@${id}`, entry);
      })
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    const times = snapshots.map(({ createdAt }) => createdAt.getTime());
    return { id, snapshots, createdAt: new Date(Math.min(...times)), ready: true };
  }

  return {
    async create(name, volumeIds, parameters, call) {
      const volumes = await volumesOf(volumeIds, call);
      const longest = volumes.reduce((most, { id }) => (id.length > most.length ? id : most), "");
      const own = names.snapshotName(name, longest);
      const before = ownOf(await membersOf(own, call));
      if (before.length > 0) return existing(name, own, volumes, before);
      // Size and id differ between the volumes, but the values are the same for all.
      const of = { name, volume: undefined, bytes: 0n, parameters };
      const values = { ...snapshotValues(settings, of), [property.group]: own };
      const [first = "", ...rest] = volumes.map(({ dataset }) => `${dataset}@${own}`);
      const query = { names: [names.pool, first, ...rest], properties: snapshotProperties };
      const { entries } = await zfs
        .snapshot([first, ...rest], values, query, call.signal)
        .catch(error => throwSnapshotFailure(storage, error, [first, ...rest], name, call));
      return existing(name, own, volumes, [...entries.values()].filter(isSnapshot));
    },
    async delete(id, _snapshotIds, call) {
      if (!isSnapshotName(id)) return;
      const freed: string[] = [];
      // A volume that is set aside meanwhile takes its snapshot along, under another name. So they are read until none is left, at least twice.
      for (let read = 1; ; read++) {
        const members = await grouped(id, call);
        const own = ownOf(members);
        const [first] = members;
        if (read === 1 && first && own.length === 0)
          throw storage.notOwn(`the group snapshot "${id}" belongs to ${otherOwner(first, settings.marks)}`);
        if (read > mostReads) throw storage.error("aborted", `volumes of the group snapshot "${id}" are being deleted`);
        for (const each of own)
          await zfs.destroy(each.name, { deferred: true, guid: shownValue(each, "guid") }, call.signal);
        freed.push(...own.map(({ name }) => name));
        if (settings.dependents !== "tombstone" || (own.length === 0 && read > 1)) break;
      }
      if (freed.length === 0) await requireParent(storage, names.parent, call);
      await removeFreed(storage, freed, call);
    },
    async get(id, _snapshotIds, call) {
      const members = isSnapshotName(id) ? ownOf(await grouped(id, call)) : [];
      if (members.length > 0) return groupOf(id, members);
      throw storage.error("not-found", `group snapshot "${id.slice(0, 128)}" does not exist`);
    },
  };
}

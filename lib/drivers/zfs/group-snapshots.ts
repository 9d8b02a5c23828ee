import type { Call } from "../../core/call.ts";
import type { Context, GroupSnapshot, GroupSnapshotAbility } from "../driver.ts";
import { isSnapshotName, isVolumeId } from "./names.ts";
import { otherOwner, ownValue, property } from "./properties.ts";
import { snapshotFailure, snapshotOf } from "./snapshots.ts";
import { isSnapshot, snapshotProperties } from "./sources.ts";
import type { ZfsStorage } from "./storage.ts";
import { snapshotValues } from "./values.ts";
import { volumeIn, volumePropertyNames, type ZfsVolume } from "./volume.ts";
import { type Entry, untrue } from "./zfs.ts";

/** Snapshots of several volumes at one moment: `zfs snapshot a@x b@x` takes all of them or none. */
export class DatasetGroupSnapshots implements GroupSnapshotAbility {
  readonly #storage: ZfsStorage;

  constructor(storage: ZfsStorage) {
    this.#storage = storage;
  }

  async create(name: string, volumeIds: readonly string[], parameters: Context, call: Call): Promise<GroupSnapshot> {
    const { names, zfs, settings } = this.#storage;
    const volumes = await this.#volumes(volumeIds, call);
    const longest = volumes.reduce((most, { id }) => (id.length > most.length ? id : most), "");
    const own = names.snapshotName(name, longest);
    const before = this.#own(await this.#members(own, call));
    if (before.length > 0) return this.#existing(name, own, volumes, before);
    // Size and id differ between the volumes, but the values are the same for all.
    const of = { name, volume: undefined, bytes: 0n, parameters };
    const values = { ...snapshotValues(settings, of), [property.group]: own };
    const [first = "", ...rest] = volumes.map(({ dataset }) => `${dataset}@${own}`);
    const query = { names: [names.pool, first, ...rest], properties: snapshotProperties };
    const { entries } = await zfs
      .snapshot([first, ...rest], values, query, call.signal)
      .catch(async error => Promise.reject(await snapshotFailure(this.#storage, error, [first, ...rest], name, call)));
    const made = [...entries.values()].filter(isSnapshot);
    return this.#existing(name, own, volumes, made);
  }

  async delete(id: string, _snapshotIds: readonly string[], call: Call): Promise<void> {
    if (!isSnapshotName(id)) return;
    const { zfs, settings } = this.#storage;
    const members = await this.#grouped(id, call);
    const own = this.#own(members);
    const [first] = members;
    if (first && own.length === 0)
      throw this.#storage.error(
        "failed-precondition",
        `the group snapshot "${id}" belongs to ${otherOwner(first, settings.marks)}; csimux leaves it as it is`,
      );
    for (const { name } of own) await zfs.destroy(name, { deferred: true }, call.signal);
  }

  async get(id: string, _snapshotIds: readonly string[], call: Call): Promise<GroupSnapshot> {
    const members = isSnapshotName(id) ? this.#own(await this.#grouped(id, call)) : [];
    if (members.length > 0) return this.#group(id, members);
    throw this.#storage.error("not-found", `group snapshot "${id.slice(0, 128)}" does not exist`);
  }

  async #volumes(ids: readonly string[], call: Call): Promise<readonly ZfsVolume[]> {
    const { names, zfs, settings } = this.#storage;
    const query = {
      names: [names.pool, ...ids.filter(isVolumeId).map(id => names.dataset(id))],
      properties: volumePropertyNames(settings),
    };
    const entries = await zfs.read(query, call.signal);
    return ids.map(id => {
      const volume = isVolumeId(id) ? volumeIn(id, entries.get(names.dataset(id)), settings) : undefined;
      if (volume?.finished) return volume;
      throw this.#storage.error("not-found", `volume "${id.slice(0, 128)}" does not exist`);
    });
  }

  /** The members of this connection, not of another one with the same parent. */
  #own(members: readonly Entry[]): readonly Entry[] {
    return members.filter(each => otherOwner(each, this.#storage.settings.marks) === undefined);
  }

  /** The snapshots of a group, without one of the same name that was taken of a single volume. */
  async #grouped(id: string, call: Call): Promise<readonly Entry[]> {
    return (await this.#members(id, call)).filter(each => ownValue(each, property.group) === id);
  }

  /** The CSI snapshots of this name, of a group or of a single volume. */
  async #members(own: string, call: Call): Promise<readonly Entry[]> {
    const { names, zfs } = this.#storage;
    const wanted = { name: own, parent: names.parent, copies: undefined };
    const { holders } = await zfs.namesakes(wanted, { names: [names.pool], properties: ["type"] }, call.signal);
    if (holders.length === 0) return [];
    const query = { names: [names.pool, ...holders.map(each => `${each}@${own}`)], properties: snapshotProperties };
    return [...(await zfs.read(query, call.signal)).values()].filter(isSnapshot);
  }

  #existing(name: string, own: string, volumes: readonly ZfsVolume[], members: readonly Entry[]): GroupSnapshot {
    if (members.length === 0) throw untrue(`taken the snapshots @${own}`);
    const wanted = new Set(volumes.map(({ dataset }) => `${dataset}@${own}`));
    const equal = members.length === wanted.size && members.every(each => wanted.has(each.name));
    if (equal && members.every(each => ownValue(each, property.group) === own)) return this.#group(own, members);
    throw this.#storage.error(
      "already-exists",
      `group snapshot "${name.slice(0, 128)}" exists of other volumes, or one of them has a snapshot of this name`,
    );
  }

  #group(id: string, members: readonly Entry[]): GroupSnapshot {
    const { names } = this.#storage;
    const snapshots = members
      .map(entry => snapshotOf(`${names.volumeOf(entry.name.split("@")[0] ?? "") ?? ""}@${id}`, entry))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    const times = snapshots.map(({ createdAt }) => createdAt.getTime());
    return { id, snapshots, createdAt: new Date(Math.min(...times)), ready: true };
  }
}

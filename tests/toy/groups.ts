import { CsiError } from "../../lib/core/errors.ts";
import { backendName } from "../../lib/core/name.ts";
import type { Context, GroupSnapshot, GroupSnapshotAbility } from "../../lib/drivers/driver.ts";
import type { ToySnapshots } from "./snapshots.ts";
import type { Step, ToySnapshot, ToyStorage } from "./storage.ts";

/** Snapshots of several volumes, in one step. */
export class ToyGroups implements GroupSnapshotAbility {
  readonly #storage: ToyStorage;
  readonly #step: Step;
  readonly #snapshots: ToySnapshots;
  readonly #maxIdBytes: number;

  constructor(storage: ToyStorage, step: Step, snapshots: ToySnapshots, maxIdBytes: number) {
    this.#storage = storage;
    this.#step = step;
    this.#snapshots = snapshots;
    this.#maxIdBytes = maxIdBytes;
  }

  async create(name: string, volumeIds: readonly string[], _parameters: Context): Promise<GroupSnapshot> {
    const group = backendName(name, this.#maxIdBytes);
    const old = this.#members(group);
    const same = old.length === volumeIds.length && old.every(({ volumeId }) => volumeIds.includes(volumeId));
    if (old.length > 0 && !same) throw new CsiError("already-exists", `group snapshot "${name}" is one of others`);
    if (old.length === 0) {
      const made = volumeIds.map(volumeId => this.#snapshot(group, volumeId));
      await this.#step(() => {
        for (const snapshot of made) this.#storage.snapshots.set(snapshot.id, snapshot);
      });
    }
    return this.get(group);
  }

  async delete(id: string): Promise<void> {
    for (const snapshot of this.#members(id)) await this.#snapshots.delete(snapshot.id);
  }

  async get(id: string): Promise<GroupSnapshot> {
    const members = this.#members(id);
    const [first] = members;
    if (!first) throw new CsiError("not-found", `group snapshot "${id}" does not exist`);
    const snapshots = await Promise.all(members.map(member => this.#snapshots.get(member.id)));
    return { id, snapshots, createdAt: first.createdAt, ready: true };
  }

  #members(group: string): readonly ToySnapshot[] {
    return [...this.#storage.snapshots.values()].filter(snapshot => snapshot.group === group);
  }

  #snapshot(group: string, volumeId: string): ToySnapshot {
    const volume = this.#storage.volumes.get(volumeId);
    if (!volume || volume.foreign) throw new CsiError("not-found", `volume "${volumeId}" does not exist`);
    const name = `${group} ${volumeId}`;
    const { bytes, content } = volume;
    return { id: backendName(name, this.#maxIdBytes), name, volumeId, bytes, createdAt: new Date(), content, group };
  }
}

import type { Call } from "../../../core/call.ts";
import { unless } from "../../../io/files.ts";
import type { Snapshot } from "../../driver.ts";
import { afterFailure, throwIfCancelled, unfinished } from "../../failure.ts";
import type { VolumeContent } from "../creation.ts";
import { errorOn, type OperationContext } from "../operation-context.ts";
import { backupId, snapshotKey } from "../snapshot-ids.ts";
import { type SnapshotParts, snapshotOf } from "../snapshots.ts";
import { copied, removeTree } from "../tools.ts";
import type { BackupRequest, Repository } from "./repository.ts";
import type { Backup } from "./tool.ts";

type BackupParts = Pick<SnapshotParts, "maxIdBytes" | "volume">;

/**
 * Snapshots in a repository, which is their only record. A backup counts as soon as the repository reports it as
 * complete; the next call removes what an interrupted call left.
 */
export class Backups {
  readonly #context: OperationContext;
  readonly #repository: Repository;
  readonly #parts: BackupParts;

  constructor(context: OperationContext, repository: Repository, parts: BackupParts) {
    this.#context = context;
    this.#repository = repository;
    this.#parts = parts;
  }

  /** As Driver.snapshots.create. */
  async create(name: string, volumeId: string, call: Call): Promise<Snapshot> {
    const key = snapshotKey(name, this.#parts.maxIdBytes);
    return await this.#context.locks.hold([`${this.#repository.method} ${key}`], async () => {
      const found = await this.#repository.find(key, call);
      const before = oldest(found);
      if (before) return this.#existing(name, volumeId, before);
      const { path, bytes } = await this.#parts.volume(volumeId);
      for (const { id } of found) await this.#repository.forget(id, call);
      await this.#take(path, { key, volumeId, bytes }, call);
      // The backup exists now, so a failure here is not final.
      const all = await this.#repository.find(key, call).catch((error: unknown) => {
        throw unfinished(error, this.#context, `create snapshot "${name}"`);
      });
      const made = oldest(all);
      if (made) return this.#existing(name, volumeId, made);
      throw errorOn(this.#context, "aborted", `snapshot "${name}" was removed while it was taken`);
    });
  }

  /**
   * As Driver.snapshots.delete. Throws "failed-precondition" for a foreign backup, which csimux restores but does not delete;
   * OK would mean that it is deleted.
   */
  async delete(id: string, call: Call): Promise<void> {
    const { method } = this.#repository;
    const backup = await this.#repository.get(id, call);
    if (!backup) return;
    if (backup.foreign !== undefined) {
      const what = `${method} snapshot "${backup.id}" was made by ${backup.foreign} and is kept`;
      const fix = `to remove it, use ${method} itself; to remove only the VolumeSnapshotContent, set its deletionPolicy to Retain`;
      throw errorOn(this.#context, "failed-precondition", `${what}; ${fix}`);
    }
    // Together with those of the same name that another controller has made for the same call. If it is gone by now,
    // what has the name was made after that.
    const named = backup.key === "" ? [] : await this.#repository.find(backup.key, call);
    const twins = named.filter(other => other.volumeId === backup.volumeId);
    const all = twins.some(twin => twin.id === backup.id) ? twins : [backup];
    for (const each of all) await this.#repository.forget(each.id, call);
  }

  /** As Driver.snapshots.get; the result has the requested id. */
  async get(asked: string, id: string, call: Call): Promise<Snapshot> {
    return snapshotOf(asked, await this.#known(id, call));
  }

  /** All snapshots of this connection in the repository, by id. */
  async all(volumeId: string | undefined, call: Call): Promise<ReadonlyMap<string, Snapshot>> {
    const found = await this.#repository.find(undefined, call);
    const wanted = found.filter(backup => backup.complete && backup.volumeId === (volumeId ?? backup.volumeId));
    return new Map(wanted.map(this.#snapshotOf).map(snapshot => [snapshot.id, snapshot]));
  }

  /** The content of a snapshot for a new volume. Throws "not-found". */
  async content(id: string, call: Call): Promise<VolumeContent> {
    const backup = await this.#known(id, call);
    return { bytes: backup.bytes, fill: target => this.#restore(backup, target, call) };
  }

  /** Restores into `target`, and moves the folder of the volume there if the tool created it deeper. */
  async #restore(backup: Backup, target: string, call: Call): Promise<void> {
    const { files } = this.#context;
    const at = await this.#repository.restore(this.#context, backup, target, call);
    if (at !== target) {
      await this.#requireFolder(backup.id, target, at);
      // It has the same prefix, so that the sweep after an interrupted call removes it.
      const aside = `${target}~`;
      await files.rename(target, aside);
      await files.rename(`${aside}${at.slice(target.length)}`, target);
      await removeTree(this.#context, aside, call);
    }
    await copied(this.#context, target, call);
    throwIfCancelled(this.#context, call);
  }

  /** Throws unless a backup has restored a folder where it says, not through a link, which could lead to another volume. */
  async #requireFolder(id: string, target: string, at: string): Promise<void> {
    const { files } = this.#context;
    const real = await unless(files.realPath(at), "ENOENT", "ENOTDIR", "ELOOP");
    const isInside = real === `${await files.realPath(target)}${at.slice(target.length)}`;
    if (isInside && (await files.entry(at)) === "folder") return;
    const what = `${this.#repository.method} snapshot "${id}" has a link or a file in place of its folder`;
    throw errorOn(this.#context, "failed-precondition", `${what}; make a snapshot of the folder itself, and use that`);
  }

  async #take(path: string, wanted: BackupRequest, call: Call): Promise<void> {
    try {
      await this.#repository.take(this.#context, path, wanted, call);
    } catch (error) {
      const gone = await this.#clear(wanted.key, call);
      throw await afterFailure(error, async () => gone, this.#context, "create snapshot", call);
    }
  }

  /** Removes incomplete backups, as the next call of this name does. Returns whether nothing is left. */
  async #clear(key: string, call: Call): Promise<boolean> {
    try {
      const all = await this.#repository.find(key, call);
      for (const { id, complete } of all) if (!complete) await this.#repository.forget(id, call);
      return !all.some(({ complete }) => complete);
    } catch (cause) {
      call.log.warn("an incomplete snapshot could not be removed; the next call of its name will", { cause });
      return false;
    }
  }

  #existing(name: string, volumeId: string, backup: Backup): Snapshot {
    if (backup.volumeId === volumeId) return this.#snapshotOf(backup);
    throw errorOn(this.#context, "already-exists", `snapshot "${name}" exists, of volume "${backup.volumeId}"`);
  }

  async #known(id: string, call: Call): Promise<Backup> {
    const backup = await this.#repository.get(id, call);
    if (backup?.complete) return backup;
    throw this.#repository.gone(id);
  }

  readonly #snapshotOf = (backup: Backup): Snapshot =>
    snapshotOf(backupId({ method: this.#repository.method, id: backup.id }, this.#parts.maxIdBytes), backup);
}

/** The first complete backup. If two controllers made one each, both return this one. */
const oldest = (all: readonly Backup[]): Backup | undefined =>
  all
    .filter(({ complete }) => complete)
    .sort((a, b) => a.created.getTime() - b.created.getTime() || (a.id < b.id ? -1 : 1))[0];

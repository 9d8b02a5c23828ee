import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Snapshot } from "../driver.ts";
import { afterFailure, throwIfCancelled, unfinished } from "../failure.ts";
import type { Backup, BackupRequest, BackupTool } from "./backup-tool.ts";
import type { SourceTree, VolumeContent } from "./creation.ts";
import type { OperationContext } from "./operation-context.ts";
import { backupId, snapshotKey } from "./snapshot-ids.ts";
import { copied, removeTree } from "./tools.ts";

/** What backups are made with. */
export interface BackupParts {
  readonly tool: BackupTool;
  readonly maxIdBytes: number;
  /** The tree of an existing volume. Throws "not-found". */
  volume(id: string): Promise<SourceTree>;
}

/**
 * Snapshots that a tool keeps in a repository, which alone knows of them: there is no record beside it that could differ. A backup
 * counts from the moment that the repository says it is complete; what an interrupted call left is forgotten by the next one.
 */
export class Backups {
  readonly #space: OperationContext;
  readonly #parts: BackupParts;

  constructor(space: OperationContext, parts: BackupParts) {
    this.#space = space;
    this.#parts = parts;
  }

  /** As Driver.snapshots.create. */
  async create(name: string, volumeId: string, call: Call): Promise<Snapshot> {
    const { tool, maxIdBytes } = this.#parts;
    const key = snapshotKey(name, maxIdBytes);
    return await this.#space.locks.hold([`${tool.method} ${key}`], async () => {
      const found = await tool.find(key, call);
      const before = oldest(found);
      if (before) return this.#existing(name, volumeId, before);
      const { path, bytes } = await this.#parts.volume(volumeId);
      for (const { id } of found) await tool.forget(id, call);
      await this.#take(path, { key, volumeId, bytes }, call);
      // It is in the repository now, so what fails here is not final.
      const all = await tool.find(key, call).catch((error: unknown) => {
        throw unfinished(error, this.#space, `create snapshot "${name}"`);
      });
      const made = oldest(all);
      if (made) return this.#existing(name, volumeId, made);
      const text = `snapshot "${name}" was removed while it was taken`;
      throw new CsiError("aborted", `connection "${this.#space.connection}": ${text}`);
    });
  }

  /**
   * As Driver.snapshots.delete. Throws "failed-precondition" for a backup that somebody else made: it may be restored, but the
   * repository is theirs as well. OK would report it as deleted.
   */
  async delete(id: string, call: Call): Promise<void> {
    const { tool } = this.#parts;
    const backup = await tool.get(id, call);
    if (!backup) return;
    if (backup.foreign !== undefined) throw this.#refused(backup.id, backup.foreign);
    for (const each of [backup.id, ...(await this.#twins(backup, call))]) await tool.forget(each, call);
  }

  /** What another controller made for the same call: one name means one snapshot, so they go together. */
  async #twins({ id, key, volumeId }: Backup, call: Call): Promise<readonly string[]> {
    if (key === "") return [];
    const all = await this.#parts.tool.find(key, call);
    return all.filter(other => other.volumeId === volumeId && other.id !== id).map(other => other.id);
  }

  #refused(id: string, maker: string): CsiError {
    const { method } = this.#parts.tool;
    const what = `${method} snapshot "${id}" was made by ${maker} and is left alone`;
    const fix = `to remove it, use ${method} itself; to remove only the VolumeSnapshotContent, set its deletionPolicy to Retain`;
    return new CsiError("failed-precondition", `connection "${this.#space.connection}": ${what}; ${fix}`);
  }

  /** As Driver.snapshots.get; answers under the id that was asked for. */
  async get(asked: string, id: string, call: Call): Promise<Snapshot> {
    return { ...this.#told(await this.#known(id, call)), id: asked };
  }

  /** All snapshots of this connection in the repository, by their ids. */
  async all(volumeId: string | undefined, call: Call): Promise<ReadonlyMap<string, Snapshot>> {
    const complete = (await this.#parts.tool.find(undefined, call)).filter(backup => backup.complete);
    const told = complete.filter(backup => volumeId === undefined || backup.volumeId === volumeId).map(this.#told);
    return new Map(told.map(snapshot => [snapshot.id, snapshot]));
  }

  /** What a new volume gets of a snapshot. Throws "not-found". */
  async content(id: string, call: Call): Promise<VolumeContent> {
    const backup = await this.#known(id, call);
    return { bytes: backup.bytes, fill: target => this.#restore(backup.id, target, call) };
  }

  /** The folder of the volume moves to the place of the folder that it was restored in. */
  async #restore(id: string, target: string, call: Call): Promise<void> {
    const { files } = this.#space;
    const at = await this.#parts.tool.restore(this.#space, id, target, call);
    if (at !== target) {
      // It begins with the same letters, so that an interrupted call's is swept with it.
      const aside = `${target}~`;
      await files.rename(target, aside);
      await files.rename(`${aside}${at.slice(target.length)}`, target);
      await removeTree(this.#space, aside, call);
    }
    await copied(this.#space, target, call);
    throwIfCancelled(this.#space, call);
  }

  async #take(path: string, wanted: BackupRequest, call: Call): Promise<void> {
    const { tool } = this.#parts;
    try {
      await tool.take(this.#space, path, wanted, call);
    } catch (error) {
      const gone = await this.#clear(wanted.key, call);
      throw await afterFailure(error, async () => gone, this.#space, "create snapshot", call);
    }
  }

  /** The next call of this name does the same, and forgets what is incomplete. Tells whether nothing is left. */
  async #clear(key: string, call: Call): Promise<boolean> {
    const { tool } = this.#parts;
    try {
      const all = await tool.find(key, call);
      for (const { id, complete } of all) if (!complete) await tool.forget(id, call);
      return !all.some(({ complete }) => complete);
    } catch (cause) {
      call.log.warn("an incomplete snapshot could not be removed; the next call of its name will", { cause });
      return false;
    }
  }

  #existing(name: string, volumeId: string, backup: Backup): Snapshot {
    if (backup.volumeId === volumeId) return this.#told(backup);
    const { connection } = this.#space;
    const whose = `snapshot "${name}" exists, of volume "${backup.volumeId}"`;
    throw new CsiError("already-exists", `connection "${connection}": ${whose}`);
  }

  async #known(id: string, call: Call): Promise<Backup> {
    const { tool } = this.#parts;
    const backup = await tool.get(id, call);
    if (backup?.complete) return backup;
    const text = `connection "${this.#space.connection}": ${tool.method} has no snapshot "${id.slice(0, 64)}"`;
    throw new CsiError("not-found", text);
  }

  readonly #told = ({ id, volumeId, bytes, created }: Backup): Snapshot => ({
    id: backupId({ method: this.#parts.tool.method, id }, this.#parts.maxIdBytes),
    volumeId,
    bytes,
    createdAt: created,
    ready: true,
  });
}

/** The first that is complete. Two controllers may have made one each; both answer this one. */
const oldest = (all: readonly Backup[]): Backup | undefined =>
  all
    .filter(({ complete }) => complete)
    .sort((a, b) => a.created.getTime() - b.created.getTime() || (a.id < b.id ? -1 : 1))[0];

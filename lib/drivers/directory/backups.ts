import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { unless } from "../../io/files.ts";
import type { Snapshot } from "../driver.ts";
import { afterFailure, throwIfCancelled, unfinished } from "../failure.ts";
import type { Backup, BackupRequest, BackupTool } from "./backup-tool.ts";
import type { SourceTree, VolumeContent } from "./creation.ts";
import type { OperationContext } from "./operation-context.ts";
import { backupId, snapshotKey } from "./snapshot-ids.ts";
import { copied, removeTree } from "./tools.ts";

/** The parts of Backups. */
export interface BackupParts {
  readonly tool: BackupTool;
  readonly maxIdBytes: number;
  /** The tree of an existing volume. Throws "not-found". */
  volume(id: string): Promise<SourceTree>;
}

/**
 * Snapshots in the repository of a tool, which is their only record. A backup counts as soon as the repository reports it as
 * complete; the next call removes what an interrupted call left.
 */
export class Backups {
  readonly #context: OperationContext;
  readonly #parts: BackupParts;

  constructor(context: OperationContext, parts: BackupParts) {
    this.#context = context;
    this.#parts = parts;
  }

  /** As Driver.snapshots.create. */
  async create(name: string, volumeId: string, call: Call): Promise<Snapshot> {
    const { tool, maxIdBytes } = this.#parts;
    const key = snapshotKey(name, maxIdBytes);
    return await this.#context.locks.hold([`${tool.method} ${key}`], async () => {
      const found = await tool.find(key, call);
      const before = oldest(found);
      if (before) return this.#existing(name, volumeId, before);
      const { path, bytes } = await this.#parts.volume(volumeId);
      for (const { id } of found) await tool.forget(id, call);
      await this.#take(path, { key, volumeId, bytes }, call);
      // The backup exists now, so a failure here is not final.
      const all = await tool.find(key, call).catch((error: unknown) => {
        throw unfinished(error, this.#context, `create snapshot "${name}"`);
      });
      const made = oldest(all);
      if (made) return this.#existing(name, volumeId, made);
      const text = `snapshot "${name}" was removed while it was taken`;
      throw new CsiError("aborted", `connection "${this.#context.connection}": ${text}`);
    });
  }

  /**
   * As Driver.snapshots.delete. Throws "failed-precondition" for a foreign backup, which csimux restores but does not delete;
   * OK would mean that it is deleted.
   */
  async delete(id: string, call: Call): Promise<void> {
    const { tool } = this.#parts;
    const backup = await tool.get(id, call);
    if (!backup) return;
    if (backup.foreign !== undefined) throw this.#refused(backup.id, backup.foreign);
    for (const each of await this.#twins(backup, call)) await tool.forget(each, call);
  }

  /**
   * A backup, with those of the same name made by another controller for the same call: they are deleted together. If it is gone by now, what
   * has the name was made after that.
   */
  async #twins({ id, key, volumeId }: Backup, call: Call): Promise<readonly string[]> {
    if (key === "") return [id];
    const all = await this.#parts.tool.find(key, call);
    const ids = all.filter(other => other.volumeId === volumeId).map(other => other.id);
    return ids.includes(id) ? ids : [id];
  }

  #refused(id: string, maker: string): CsiError {
    const { method } = this.#parts.tool;
    const what = `${method} snapshot "${id}" was made by ${maker} and is kept`;
    const fix = `to remove it, use ${method} itself; to remove only the VolumeSnapshotContent, set its deletionPolicy to Retain`;
    return new CsiError("failed-precondition", `connection "${this.#context.connection}": ${what}; ${fix}`);
  }

  /** As Driver.snapshots.get; the result has the requested id. */
  async get(asked: string, id: string, call: Call): Promise<Snapshot> {
    return { ...this.#snapshotOf(await this.#known(id, call)), id: asked };
  }

  /** All snapshots of this connection in the repository, by id. */
  async all(volumeId: string | undefined, call: Call): Promise<ReadonlyMap<string, Snapshot>> {
    const complete = (await this.#parts.tool.find(undefined, call)).filter(backup => backup.complete);
    const found = complete
      .filter(backup => volumeId === undefined || backup.volumeId === volumeId)
      .map(this.#snapshotOf);
    return new Map(found.map(snapshot => [snapshot.id, snapshot]));
  }

  /** The content of a snapshot for a new volume. Throws "not-found". */
  async content(id: string, call: Call): Promise<VolumeContent> {
    const backup = await this.#known(id, call);
    return { bytes: backup.bytes, fill: target => this.#restore(backup.id, target, call) };
  }

  /** Restores into `target`, and moves the folder of the volume there if the tool created it deeper. */
  async #restore(id: string, target: string, call: Call): Promise<void> {
    const { files } = this.#context;
    const at = await this.#parts.tool.restore(this.#context, id, target, call);
    if (at !== target) {
      await this.#requireFolder(id, target, at);
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
    const { connection, files } = this.#context;
    const real = await unless(files.realPath(at), "ENOENT", "ENOTDIR", "ELOOP");
    const isInside = real === `${await files.realPath(target)}${at.slice(target.length)}`;
    if (isInside && (await files.entry(at)) === "folder") return;
    const what = `${this.#parts.tool.method} snapshot "${id}" has a link or a file in place of its folder`;
    const text = `connection "${connection}": ${what}; make a snapshot of the folder itself, and use that`;
    throw new CsiError("failed-precondition", text);
  }

  async #take(path: string, wanted: BackupRequest, call: Call): Promise<void> {
    const { tool } = this.#parts;
    try {
      await tool.take(this.#context, path, wanted, call);
    } catch (error) {
      const gone = await this.#clear(wanted.key, call);
      throw await afterFailure(error, async () => gone, this.#context, "create snapshot", call);
    }
  }

  /** Removes incomplete backups, as the next call of this name does. Returns whether nothing is left. */
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
    if (backup.volumeId === volumeId) return this.#snapshotOf(backup);
    const { connection } = this.#context;
    const whose = `snapshot "${name}" exists, of volume "${backup.volumeId}"`;
    throw new CsiError("already-exists", `connection "${connection}": ${whose}`);
  }

  async #known(id: string, call: Call): Promise<Backup> {
    const { tool } = this.#parts;
    const backup = await tool.get(id, call);
    if (backup?.complete) return backup;
    const text = `connection "${this.#context.connection}": ${tool.method} has no snapshot "${id.slice(0, 64)}"`;
    throw new CsiError("not-found", text);
  }

  readonly #snapshotOf = ({ id, volumeId, bytes, created }: Backup): Snapshot => ({
    id: backupId({ method: this.#parts.tool.method, id }, this.#parts.maxIdBytes),
    volumeId,
    bytes,
    createdAt: created,
    ready: true,
  });
}

/** The first complete backup. If two controllers made one each, both return this one. */
const oldest = (all: readonly Backup[]): Backup | undefined =>
  all
    .filter(({ complete }) => complete)
    .sort((a, b) => a.created.getTime() - b.created.getTime() || (a.id < b.id ? -1 : 1))[0];

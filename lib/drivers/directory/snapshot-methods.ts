import type { Call } from "../../core/call.ts";
import type { Context, Page, PageRequest, Snapshot, SnapshotAbility, Source, VolumeFilter } from "../driver.ts";
import { pageOf, tokenAfter } from "../pages.ts";
import type { Backups } from "./backups/snapshots.ts";
import type { BackupMethod } from "./backups/tool.ts";
import type { GivenContent } from "./copying/copied-sources.ts";
import { copyOf, type VolumeContent } from "./creation.ts";
import { errorOn, type OperationContext } from "./operation-context.ts";
import { type BackupId, parseBackupId, parseSnapshotId } from "./snapshot-ids.ts";
import type { TreeSnapshots } from "./snapshots.ts";

/** The snapshot methods of a connection. */
export interface MethodParts {
  readonly copies: TreeSnapshots;
  /** The methods that the connection file configures. */
  readonly backups: ReadonlyMap<BackupMethod, Backups>;
  /** `snapshots.default_driver`. */
  readonly method: string;
  /** Throws "aborted" if a snapshot must not be deleted now. */
  refuseProtected(source: Source, call: Call): Promise<void>;
}

/** The token of the page after the last copy: it sorts before all ids of backups. */
const firstBackup = tokenAfter("k/");

const isBackupName = (name: string): boolean => /^[kr]\//.test(name);

/** The snapshots of a connection: copies of folders and backups in repositories. The id of a snapshot shows its method. */
export class SnapshotMethods implements SnapshotAbility {
  readonly #context: OperationContext;
  readonly #parts: MethodParts;

  constructor(context: OperationContext, parts: MethodParts) {
    this.#context = context;
    this.#parts = parts;
  }

  /** As Driver.snapshots.create. Throws "invalid-argument" for a method that is unknown or not configured. */
  async create(name: string, volumeId: string, parameters: Context, call: Call): Promise<Snapshot> {
    const method = parameters["driver"] ?? this.#parts.method;
    if (method === "filecopy") return await this.#parts.copies.create(name, volumeId, call);
    const backups = this.#parts.backups.get(method as BackupMethod);
    if (backups) return await backups.create(name, volumeId, call);
    const why = isMethod(method) ? `needs settings: snapshots.${method}` : `is unknown; use filecopy, restic or kopia`;
    throw errorOn(this.#context, "invalid-argument", `snapshots by "${method.slice(0, 64)}": the method ${why}`);
  }

  async delete(id: string, call: Call): Promise<void> {
    await this.#parts.refuseProtected({ kind: "snapshot", id }, call);
    const place = parseBackupId(id);
    await (place ? this.#of(place).delete(place.id, call) : this.#parts.copies.delete(id, call));
  }

  async get(id: string, call: Call): Promise<Snapshot> {
    const place = parseBackupId(id);
    return await (place ? this.#of(place).get(id, place.id, call) : this.#parts.copies.get(id));
  }

  /** Copies first, then backups. */
  async list(filter: VolumeFilter, page: PageRequest, call: Call): Promise<Page<Snapshot>> {
    const { copies, backups } = this.#parts;
    if (backups.size === 0) return await copies.list(filter, page, call);
    if (isBackupName(page.token?.slice(1) ?? "")) return await this.#backups(filter.volumeId, page, call);
    const { items, next } = await copies.list(filter, page, call);
    if (next !== undefined) return { items, next };
    const rest = await this.#backups(filter.volumeId, { token: firstBackup, max: page.max - items.length }, call);
    return { items: [...items, ...rest.items], next: rest.next };
  }

  /** The content of a snapshot for a new volume. Throws "not-found". */
  async content(id: string, call: Call): Promise<VolumeContent> {
    const place = parseBackupId(id);
    if (place) return await this.#of(place).content(place.id, call);
    return copyOf(this.#context, await this.#parts.copies.origin(id), call);
  }

  /** What of a snapshot can be given to other connections. Throws "not-found". */
  async given(id: string, call: Call): Promise<GivenContent> {
    const place = parseBackupId(id);
    if (place) {
      const backup = await this.#of(place).get(id, place.id, call);
      return { kind: "backup", name: `${place.method.charAt(0)}/${place.id}`, bytes: backup.bytes };
    }
    const { path, bytes } = await this.#parts.copies.origin(id);
    return { kind: "tree", name: path.slice(this.#context.layout.base.length + 1), bytes };
  }

  async #backups(volumeId: string | undefined, page: PageRequest, call: Call): Promise<Page<Snapshot>> {
    const all = new Map<string, Snapshot>();
    for (const each of this.#parts.backups.values())
      for (const [id, snapshot] of await each.all(volumeId, call)) all.set(id, snapshot);
    return await pageOf([...all.keys()], isBackupName, page, async id => all.get(id));
  }

  #of({ method, id }: BackupId): Backups {
    const backups = this.#parts.backups.get(method);
    if (backups) return backups;
    const text = `snapshot "${id.slice(0, 64)}" was made with ${method}; the connection's file needs snapshots.${method}`;
    throw errorOn(this.#context, "failed-precondition", text);
  }
}

const isMethod = (text: string): text is BackupMethod => text === "restic" || text === "kopia";

/** Whether two ids are those of one snapshot. */
export function sameSnapshot(a: string, b: string): boolean {
  const [one, other] = [parseBackupId(a), parseBackupId(b)];
  if (one && other) return one.method === other.method && (one.id.startsWith(other.id) || other.id.startsWith(one.id));
  return a === b || (!one && !other && parseSnapshotId(a)?.tree === parseSnapshotId(b)?.tree);
}

import type { Call } from "../../../core/call.ts";
import type { Mapping } from "../../../core/mapping.ts";
import { mapLimit } from "../../../core/semaphore.ts";
import { unless } from "../../../io/files.ts";
import type { CopyMethod, CopySpec, SourceSnapshot, StillHeld, StoredCopy } from "../../copying.ts";
import { failure, throwIfCancelled } from "../../failure.ts";
import { sizeFrom } from "../../sizes.ts";
import type { ForeignSource } from "../../volume.ts";
import { recorded } from "../creation.ts";
import { isVolumeId } from "../layout.ts";
import { errorOn, type OperationContext, present } from "../operation-context.ts";
import type { OwnershipAndMode } from "../owner.ts";
import { foreignSource, isOfOther, otherCapitals, type TreeRecords, type VolumeRecord } from "../records.ts";
import { checkTools, copied } from "../tools.ts";
import type { Trees } from "../trees.ts";
import { OwnFiles, short } from "./own-files.ts";
import { TargetFolder } from "./target-folder.ts";

/** A file below `.csimux/copies`: the record of a copy, with its volume and connection. */
interface CopyFile {
  readonly name: string;
  readonly copyOf: ForeignSource;
  readonly connection: string;
  /** The text of StoredCopy.record. */
  readonly record: string;
}

/** The parts of a store in which targets become volumes. */
export interface UnfinishedCopyParts {
  readonly trees: Trees;
  readonly owner: OwnershipAndMode;
  readonly records: TreeRecords<VolumeRecord>;
  /** The id of a volume with this name. Pure. */
  idOf(name: string): string;
}

function copyFile(fields: Mapping): CopyFile | undefined {
  const { name, connection, record } = fields;
  const copyOf = foreignSource(fields["copyOf"]);
  if (typeof name !== "string" || typeof connection !== "string" || typeof record !== "string") return undefined;
  return copyOf && { name, copyOf, connection, record };
}

const isSame = (a: ForeignSource, b: ForeignSource): boolean => a.kind === b.kind && a.handle === b.handle;

/**
 * Unfinished copies from other connections. The record of a copy is written first and removed last; its target is a folder with a fixed
 * name in the work folder, where no node and no listing sees it. A target becomes a volume by a rename, after everything in it is on
 * stable storage.
 */
export class UnfinishedCopies {
  readonly #context: OperationContext;
  readonly #parts: UnfinishedCopyParts;
  readonly #files: OwnFiles<CopyFile>;

  constructor(context: OperationContext, parts: UnfinishedCopyParts) {
    this.#context = context;
    this.#parts = parts;
    this.#files = new OwnFiles(context, context.layout.copies, copyFile);
  }

  /** Whether there is a record of a copy into this volume, readable or not. */
  async has(id: string): Promise<boolean> {
    return isVolumeId(id) && (await this.#files.has(id));
  }

  /** Like CopyTarget.refusal. */
  async refusal(method: CopyMethod, { name, range }: CopySpec, snapshot: SourceSnapshot, call: Call) {
    if (method !== "rsync" && method !== "restore")
      return errorOn(this.#context, "invalid-argument", "volumes in folders take no streams");
    try {
      await present(this.#context);
      sizeFrom(range, snapshot.bytes);
      await checkTools(this.#context, call);
      const { availableBytes } = await this.#context.files.statfs(this.#context.layout.base);
      if (snapshot.toSend <= availableBytes) return undefined;
      const text = `the content has ${snapshot.toSend} bytes, and only ${availableBytes} are free; free some or add some`;
      return errorOn(this.#context, "resource-exhausted", text);
    } catch (error) {
      const refused = failure(error, this.#context, `copy into volume "${name.slice(0, 160)}"`);
      if (["invalid-argument", "failed-precondition", "out-of-range", "resource-exhausted"].includes(refused.code))
        return refused;
      throw refused;
    }
  }

  /** Like CopyTarget.begin. Throws "already-exists" for the target of another request, and "aborted" if the volume exists. */
  async begin(spec: CopySpec, record: string, call: Call): Promise<StoredCopy> {
    const id = this.#parts.idOf(spec.name);
    if (await this.#parts.trees.has(id)) {
      if (isOfOther(id, await this.#parts.records.read(id))) throw otherCapitals(this.#context, id);
      throw errorOn(this.#context, "aborted", `volume "${id}" was created meanwhile; retrying`);
    }
    const kept = (await this.#files.read(id)) ?? (await this.#begunMeanwhile(id));
    if (kept) {
      this.#refuseOther(kept, spec);
      await this.#make(id, call);
      return { id, record: kept.record, ...(await this.#mark(id)) };
    }
    // The mark of an earlier copy, whose record was removed while it was written.
    await this.#files.unmark(id);
    const { connection } = this.#context;
    await this.#files.put(id, { name: spec.name, copyOf: spec.origin, connection, record: short(record) });
    await this.#make(id, call);
    return { id, record };
  }

  /** The record of a copy that had none, if another process has begun it since. Throws "failed-precondition" for content without one. */
  async #begunMeanwhile(id: string): Promise<CopyFile | undefined> {
    await present(this.#context);
    const target = this.#target(id);
    if (!(await target.isThere())) return undefined;
    const kept = await this.#files.read(id);
    // A process that was to make it while the copy was removed leaves it empty for a moment, or permanently if it is killed then.
    if (kept || (await target.removedIfEmpty())) return kept;
    const text = `${target.path} exists, but csimux has no record of a copy for it; move it away`;
    throw errorOn(this.#context, "failed-precondition", text);
  }

  /** Like CopyTarget.find. Throws "failed-precondition" for a record that cannot be read. */
  async find(id: string): Promise<StoredCopy | undefined> {
    const kept = await this.#own(id);
    if (kept) return { id, record: kept.record, ...(await this.#mark(id)) };
    await present(this.#context);
    return undefined;
  }

  /** Like CopyTarget.note. */
  async note(id: string, record: string): Promise<void> {
    await this.#files.put(id, { ...(await this.#known(id)), record: short(record) });
  }

  /** Like CopyTarget.markCancelled. */
  async markCancelled(id: string): Promise<void> {
    await this.#known(id);
    await this.#files.mark(id);
  }

  /**
   * Gives a target, which holds `snapshot`, the owner and mode of new volumes, puts it on stable storage, writes the volume's record, and
   * only then gives it its name. Returns the record; undefined if the volume exists already.
   */
  async complete(
    id: string,
    spec: CopySpec,
    snapshot: SourceSnapshot,
    stillHeld: StillHeld,
    call: Call,
  ): Promise<VolumeRecord | undefined> {
    const { trees, owner, records } = this.#parts;
    if (await trees.has(id)) {
      // The call that named it may have ended before this step.
      await trees.sync();
      return undefined;
    }
    this.#refuseOther(await this.#known(id), spec);
    const target = this.#target(id);
    const lost = `the content that was copied to ${target.path} no longer exists; cancel the copy`;
    if (!(await target.isThere())) throw errorOn(this.#context, "unavailable", lost);
    await owner.apply(target.path);
    await copied(this.#context, target.path, call);
    throwIfCancelled(this.#context, call);
    const folder = await target.taken();
    // This process may have been suspended until here: the holder since then has either taken the folder back, or is seen now.
    await stillHeld();
    const record: VolumeRecord = {
      ...{ name: spec.name, bytes: sizeFrom(spec.range, snapshot.bytes), source: undefined },
      copyOf: spec.origin,
      created: new Date(),
      connection: this.#context.connection,
    };
    // A record that exists is that of an earlier attempt, or of an interrupted creation without a source.
    const subject = { trees, tree: id, records, key: id, file: this.#context.layout.record("v", id) };
    await recorded(this.#context, subject, record, claim => trees.appear(id, folder, claim), call);
    return record;
  }

  /** Like CopyTarget.hasContent. The target comes first, because another process may give it its name meanwhile. */
  async hasContent(id: string): Promise<boolean> {
    if ((await this.#target(id).isThere()) || (await this.#parts.trees.has(id))) return true;
    await present(this.#context);
    return false;
  }

  /** Like CopyTarget.drop. */
  async drop(id: string, call: Call): Promise<void> {
    if (await this.empty(id, call)) await this.#files.drop(id);
  }

  /** Like CopyTarget.empty. Returns whether there is a record. */
  async empty(id: string, call: Call): Promise<boolean> {
    const { trees, records } = this.#parts;
    const { files, layout } = this.#context;
    if (!isVolumeId(id)) return false;
    if (await trees.has(id))
      throw errorOn(this.#context, "failed-precondition", `volume "${id}" is complete; delete it instead`);
    const kept = await this.#own(id);
    if (!kept) {
      await present(this.#context);
      return false;
    }
    await this.#target(id).remove(call);
    // Content that reappeared in the work folder after a power failure would never be removed.
    await unless(files.sync(layout.work), "ENOENT");
    const begun = await records.read(id);
    if (begun?.copyOf && isSame(begun.copyOf, kept.copyOf)) {
      if (!(await trees.clear(id, layout.record("v", id), call)))
        throw errorOn(this.#context, "aborted", `volume "${id}" was finished meanwhile; it stays`);
      await files.sync(layout.own);
    }
    return true;
  }

  /** Like CopyTarget.forget. Throws "failed-precondition" for an unfinished copy. */
  async forget(id: string): Promise<void> {
    if (!isVolumeId(id)) return;
    if ((await this.#own(id)) === undefined) return await present(this.#context);
    const isFinished = await this.#parts.trees.has(id);
    const begun = `the copy to volume "${id}" is not finished; cancel it instead`;
    if (!isFinished && (await this.#target(id).isThere())) throw errorOn(this.#context, "failed-precondition", begun);
    await this.#files.drop(id);
  }

  /** Like CopyTarget.copies. The record of a file that cannot be read is empty. */
  async list(call: Call): Promise<readonly StoredCopy[]> {
    const all = await this.#files.all(isVolumeId, call);
    if (all.length === 0) await present(this.#context);
    const stored = async ({ name, value }: (typeof all)[number]): Promise<StoredCopy> => ({
      id: name,
      record: value?.record ?? "",
      ...(await this.#mark(name)),
    });
    return mapLimit(all, 8, stored);
  }

  /** Like CopyTarget.folder. Makes the target again if an interrupted call has left none. */
  async folder(id: string, call: Call): Promise<string> {
    await this.#known(id);
    await this.#make(id, call);
    return this.#target(id).path;
  }

  /** Like CopyTarget.flush. */
  flush = (id: string, call: Call): Promise<void> => copied(this.#context, this.#target(id).path, call);

  async #mark(id: string): Promise<Pick<StoredCopy, "isCancelled">> {
    return (await this.#files.isMarked(id)) ? { isCancelled: true } : {};
  }

  #target(id: string): TargetFolder {
    return new TargetFolder(this.#context, id);
  }

  #make(id: string, call: Call): Promise<void> {
    return this.#target(id).make(async () => (await this.#files.read(id)) !== undefined, call);
  }

  /** The file of a copy to this volume; undefined for that of one whose name has other capitals, which a server may give for it. */
  async #own(id: string): Promise<CopyFile | undefined> {
    const kept = isVolumeId(id) ? await this.#files.read(id) : undefined;
    return isOfOther(id, kept) ? undefined : kept;
  }

  /** The file of a copy that must exist. */
  async #known(id: string): Promise<CopyFile> {
    const kept = await this.#own(id);
    if (kept) return kept;
    await present(this.#context);
    throw errorOn(this.#context, "not-found", `there is no copy to volume "${id.slice(0, 128)}" any more`);
  }

  #refuseOther(kept: CopyFile, { name, origin }: CopySpec): void {
    if (kept.name === name && isSame(kept.copyOf, origin)) return;
    const of = `as "${kept.name.slice(0, 128)}" of ${kept.copyOf.kind} "${kept.copyOf.handle.slice(0, 160)}"`;
    throw errorOn(this.#context, "already-exists", `volume "${name.slice(0, 128)}" is being copied ${of}`);
  }
}

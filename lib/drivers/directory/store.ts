import { wantedBytes } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import { type CsiError, errnoOf } from "../../core/errors.ts";
import { backendName } from "../../core/name.ts";
import type { CopySpec, SourceSnapshot, StillHeld } from "../copying.ts";
import type { Context, Page, PageRequest, Source, VolumeSpec } from "../driver.ts";
import { lookedFor, throwIfCancelled, unfinished } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { checkSameRequest, sizeFrom } from "../sizes.ts";
import type { HealthInspection, StoredVolume } from "../store.ts";
import { inspectBase } from "./condition.ts";
import type { CopiedSources } from "./copying/copied-sources.ts";
import { UnfinishedCopies } from "./copying/unfinished-copies.ts";
import { copyOf, make, type SourceTree, type TreePlan } from "./creation.ts";
import { isVolumeId } from "./layout.ts";
import { errorOn, type OperationContext, present } from "./operation-context.ts";
import type { OwnershipAndMode } from "./owner.ts";
import { isOfOther, otherCapitals, type TreeRecords, type VolumeRecord, volumeRecords } from "./records.ts";
import { type SnapshotMethods, sameSnapshot } from "./snapshot-methods.ts";
import { checkTools } from "./tools.ts";
import type { Trees } from "./trees.ts";

/** A volume: a folder, or the record of its interrupted creation. */
export type VolumeFolder = StoredVolume;

/** The parts of a store. */
export interface StoreParts {
  readonly trees: Trees;
  readonly owner: OwnershipAndMode;
  readonly maxIdBytes: number;
  readonly snapshots: SnapshotMethods;
  readonly sources: CopiedSources;
}

const copyable = ["volume", "snapshot"] as const;

/** Volumes as folders below `v`, each with a record below `.csimux`: what StorePerOperation calls on one base folder. */
export class DirectoryStore {
  readonly snapshots: SnapshotMethods;
  readonly clonesFrom = copyable;
  readonly sources: CopiedSources;
  readonly unfinished: UnfinishedCopies;
  readonly #context: OperationContext;
  readonly #parts: StoreParts;
  readonly #records: TreeRecords<VolumeRecord>;

  constructor(context: OperationContext, parts: StoreParts) {
    this.snapshots = parts.snapshots;
    this.#context = context;
    this.#parts = parts;
    this.#records = volumeRecords(context);
    this.sources = parts.sources;
    this.unfinished = new UnfinishedCopies(context, {
      ...parts,
      records: this.#records,
      idOf: name => this.idOf(name),
    });
  }

  idOf(name: string): string {
    return backendName(name, this.#parts.maxIdBytes);
  }

  async create(spec: VolumeSpec, call: Call): Promise<VolumeFolder> {
    const { trees } = this.#parts;
    const id = this.idOf(spec.name);
    const look = <T>(work: Promise<T>) => lookedFor(work, this.#context, `create volume "${spec.name}"`);
    if (await look(trees.has(id))) return this.#existing(id, spec);
    // On a fixed base folder, the record that is written first proves that it exists.
    if (this.#context.mountTypes !== undefined) await look(present(this.#context));
    if (await look(this.unfinished.has(id))) throw this.#copied("already-exists", id, "delete or cancel that first");
    const subject = { trees, tree: id, records: this.#records, key: id, file: this.#file(id) };
    try {
      return folder(id, await make(this.#context, subject, () => this.#plan(spec, call), call));
    } catch (error) {
      if (["ENOENT", "ENOTDIR"].includes(errnoOf(error) ?? "")) await present(this.#context);
      throw error;
    }
  }

  /** A record without a tree means an interrupted creation, because the record is written first. */
  async find(id: string): Promise<VolumeFolder | undefined> {
    if (isVolumeId(id) && (await this.#parts.trees.has(id))) {
      const record = await this.#records.read(id);
      // The call that made it of a copy may have ended before this step.
      if (record?.copyOf && (await this.unfinished.has(id))) await this.#parts.trees.sync();
      if (isOfOther(id, record)) return undefined;
      return folder(id, record);
    }
    await present(this.#context);
    if (!isVolumeId(id) || (await this.#context.files.entry(this.#file(id))) === undefined) return undefined;
    return { ...folder(id, undefined), finished: false };
  }

  async remove(id: string, before: (asset: VolumeFolder) => Promise<void>, call: Call): Promise<void> {
    if (!isVolumeId(id)) return;
    await this.sources.refuseProtected({ kind: "volume", id }, call);
    const record = this.#file(id);
    const current = await this.#parts.trees.current(id, record);
    // After that, because what another controller has made since then is not what is to be deleted.
    if (!this.#context.local && (await this.#isOther(id, await this.#records.read(id))))
      return call.log.warn("nothing to delete: the volume of this id has a name with other capitals", { volume: id });
    const isCopied = await this.unfinished.has(id);
    if (current !== undefined) {
      await before(folder(id, undefined));
      if (isCopied) await this.unfinished.forget(id);
    } else if (isCopied && (await this.unfinished.find(id)))
      throw this.#copied("aborted", id, "retrying until that is cancelled");
    // A volume of democratic-csi gets a record, so that an interrupted removal leaves a trace.
    const mark = () => this.#records.start(id, this.#record(undefined, 0n, undefined));
    await this.#parts.trees.remove(id, { current, record, mark }, call);
  }

  /** Every folder below `v` is a volume, with or without a record. */
  idOfObject(object: string): string | undefined {
    const start = this.#context.layout.tree("v", "");
    return object.startsWith(start) ? object.slice(start.length) : object.includes("/") ? undefined : object;
  }

  sameSource(a: Source, b: Source): boolean {
    return a.kind === b.kind && (a.kind === "volume" ? a.id === b.id : sameSnapshot(a.id, b.id));
  }

  /** There is no quota, so only the record changes. */
  async resize(asset: VolumeFolder, bytes: bigint): Promise<VolumeFolder> {
    const record = (await this.#records.read(asset.id)) ?? this.#record(undefined, 0n, undefined);
    await this.#records.amend(asset.id, { ...record, bytes });
    return { ...asset, bytes };
  }

  /** The free bytes of the file system of the base folder. */
  async available(_parameters: Context): Promise<bigint> {
    await present(this.#context);
    return (await this.#context.files.statfs(this.#context.layout.base)).availableBytes;
  }

  async list(page: PageRequest, call: Call): Promise<Page<VolumeFolder>> {
    const { trees } = this.#parts;
    return pageOf(await trees.names(), isVolumeId, page, async id => {
      throwIfCancelled(this.#context, call);
      return (await trees.isTree(id)) ? folder(id, await this.#records.read(id)) : undefined;
    });
  }

  async look(): Promise<HealthInspection<VolumeFolder>> {
    const { storage, volumes, findings } = await inspectBase(this.#context);
    return { storage, volumes: findings, assets: volumes.filter(isVolumeId).map(id => folder(id, undefined)) };
  }

  async check(call: Call): Promise<void> {
    await present(this.#context);
    await this.#context.files.usable(this.#context.layout.base);
    await checkTools(this.#context, call);
  }

  /** The tree of an existing volume. Throws "not-found". */
  async origin(id: string): Promise<SourceTree> {
    const isThere = isVolumeId(id) && (await this.#parts.trees.has(id));
    const record = isThere ? await this.#records.read(id) : undefined;
    if (!isThere || isOfOther(id, record)) {
      await present(this.#context);
      throw errorOn(this.#context, "not-found", `volume "${id.slice(0, 128)}" does not exist`);
    }
    return { path: this.#context.layout.tree("v", id), bytes: record?.bytes ?? 0n };
  }

  #file(id: string): string {
    return this.#context.layout.record("v", id);
  }

  /** Whether what is found by an id is a volume whose name has other capitals. No record has the name of one that democratic-csi has made. */
  async #isOther(id: string, record: VolumeRecord | undefined): Promise<boolean> {
    if (record?.name !== undefined) return isOfOther(id, record);
    if (!(await this.#parts.trees.has(id))) return false;
    const names = await this.#parts.trees.names();
    return !names.includes(id) && names.some(each => each.toLowerCase() === id.toLowerCase());
  }

  #record(name: string | undefined, bytes: bigint, source: Source | undefined): VolumeRecord {
    return { name, bytes, source, created: new Date(), connection: this.#context.connection };
  }

  #copied(code: CsiError["code"], id: string, fix: string): CsiError {
    return errorOn(this.#context, code, `volume "${id}" is being copied from another connection; ${fix}`);
  }

  /** Gives a target its name. */
  async complete(
    id: string,
    spec: CopySpec,
    snapshot: SourceSnapshot,
    stillHeld: StillHeld,
    call: Call,
  ): Promise<VolumeFolder> {
    const record = await this.unfinished.complete(id, spec, snapshot, stillHeld, call);
    return folder(id, record ?? (await this.#records.read(id)));
  }

  /** The result of creating an existing volume. A tree of unknown name or size takes the requested ones. */
  async #existing(id: string, spec: VolumeSpec): Promise<VolumeFolder> {
    const look = <T>(work: Promise<T>) => lookedFor(work, this.#context, `create volume "${spec.name}"`);
    const record = await look(this.#records.read(id));
    checkSameRequest(this.#context.connection, this, spec, folder(id, record));
    if (!this.#context.local && (await look(this.#isOther(id, record)))) throw otherCapitals(this.#context, id);
    try {
      // The call that created it may have ended before this step.
      await this.#parts.trees.sync();
      return folder(id, await this.#adopted(id, spec, record));
    } catch (error) {
      throw unfinished(error, this.#context, `create volume "${spec.name}"`);
    }
  }

  /** The record of an existing tree, with unknown values filled in. */
  async #adopted(id: string, spec: VolumeSpec, record: VolumeRecord | undefined): Promise<VolumeRecord> {
    if (record?.name !== undefined && record.bytes > 0n) return record;
    const bytes = record && record.bytes > 0n ? record.bytes : wantedBytes(spec.range);
    const taken = this.#record(spec.name, bytes, record?.source);
    const adopted = { ...taken, created: record?.created ?? taken.created };
    await this.#records.amend(id, adopted);
    return adopted;
  }

  async #plan(spec: VolumeSpec, call: Call): Promise<TreePlan<VolumeRecord>> {
    const { owner, snapshots } = this.#parts;
    const { source } = spec;
    const from =
      source &&
      (source.kind === "volume"
        ? copyOf(this.#context, await this.origin(source.id), call)
        : await snapshots.content(source.id, call));
    const fill = async (target: string) => {
      await from?.fill(target);
      await owner.apply(target);
      throwIfCancelled(this.#context, call);
    };
    const record = this.#record(spec.name, sizeFrom(spec.range, from?.bytes ?? 0n), source);
    return { record, fill: from === undefined && owner.isPlain ? "empty" : fill };
  }
}

const folder = (id: string, record: VolumeRecord | undefined): VolumeFolder => ({
  id,
  name: record?.name,
  bytes: record?.bytes ?? 0n,
  source: record?.source,
  copyOf: record?.copyOf,
  notes: {},
  finished: true,
});

import { type CapacityRange, insideRange, wantedBytes } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { backendName } from "../../core/name.ts";
import type { Context, Page, PageRequest, Source, Volume, VolumeSpec } from "../driver.ts";
import { isVolumeId } from "./layout.ts";
import { copyFrom, make, type Origin, type Plan, unfinished } from "./making.ts";
import type { Dress } from "./owner.ts";
import { pageOf } from "./pages.ts";
import { type Records, type VolumeRecord, volumeRecords } from "./records.ts";
import { present, type Space, stillWanted } from "./space.ts";
import type { Trees } from "./trees.ts";

/** What the volumes of a connection are made with. */
export interface VolumeParts {
  readonly trees: Trees;
  readonly dress: Dress;
  readonly maxIdBytes: number;
  context(id: string): Context;
  /** The tree of a snapshot. Throws "not-found". */
  snapshot(id: string): Promise<Origin>;
  /** Whether two sources name the same thing, in whatever spelling. */
  sameSource(a: Source, b: Source): boolean;
}

/** The size in bytes of a volume made from `origin`: as asked, else at least as large as the origin. Throws "out-of-range". */
export function sizeFrom(range: CapacityRange, origin: Origin | undefined): bigint {
  const wanted = wantedBytes(range);
  const least = origin?.bytes ?? 0n;
  if (wanted >= least) return wanted;
  if (range.required === undefined && range.limit === undefined) return least;
  throw new CsiError("out-of-range", `${wanted} bytes are less than the source's ${least}; ask for at least those`);
}

/** Volumes as folders: create, find, resize and remove them. */
export class Volumes {
  readonly #space: Space;
  readonly #parts: VolumeParts;
  readonly #records: Records<VolumeRecord>;

  constructor(space: Space, parts: VolumeParts) {
    this.#space = space;
    this.#parts = parts;
    this.#records = volumeRecords(space);
  }

  /** As Driver.create. */
  create(spec: VolumeSpec, call: Call): Promise<Volume> {
    const { trees, maxIdBytes } = this.#parts;
    const id = backendName(spec.name, maxIdBytes);
    return trees.alone(id, async () => {
      if (await trees.has(id)) return this.#existing(id, spec);
      await present(this.#space, "next");
      const subject = { trees, tree: id, records: this.#records, key: id, file: this.#file(id) };
      return this.#volume(id, await make(this.#space, subject, () => this.#plan(spec, call), call));
    });
  }

  /** As Driver.delete. */
  async delete(id: string, call: Call): Promise<void> {
    if (!isVolumeId(id)) return;
    const { trees } = this.#parts;
    // A volume of democratic-csi gets a record, so that a removal that is interrupted leaves a trace.
    const mark = () => this.#records.start(id, this.#record(undefined, 0n, undefined));
    await trees.alone(id, () => trees.remove(id, this.#file(id), mark, call));
  }

  /** As Driver.get. */
  async get(id: string): Promise<Volume> {
    return this.#volume(id, await this.#known(id));
  }

  /** As Driver.find. */
  async find(name: string): Promise<Volume | undefined> {
    const id = backendName(name, this.#parts.maxIdBytes);
    if (!(await this.#parts.trees.has(id))) {
      await present(this.#space, "next");
      return undefined;
    }
    const record = await this.#records.read(id);
    return record?.name === undefined || record.name === name ? this.#volume(id, record) : undefined;
  }

  /** As Driver.leftover: the record is written before anything else, so one without a tree tells of an interrupted call. */
  async leftover(name: string): Promise<string | undefined> {
    const id = backendName(name, this.#parts.maxIdBytes);
    if (await this.#parts.trees.has(id)) return undefined;
    await present(this.#space, "next");
    return (await this.#space.files.entry(this.#file(id), "next")) === undefined ? undefined : id;
  }

  /** The tree of an existing volume. Throws "not-found". */
  async origin(id: string): Promise<Origin> {
    const record = await this.#known(id);
    return { path: this.#space.layout.tree("v", id), bytes: record?.bytes ?? 0n };
  }

  /** Returns the new size in bytes. There is no quota, so only the record grows. */
  expand(id: string, range: CapacityRange): Promise<bigint> {
    return this.#parts.trees.alone(id, async () => {
      const record = await this.#known(id);
      const wanted = wantedBytes(range);
      const current = record?.bytes ?? 0n;
      if (range.limit !== undefined && current > range.limit) {
        throw this.#error("out-of-range", `volume "${id}" has ${current} bytes already and never shrinks`);
      }
      if (current >= wanted || (current > 0n && range.required === undefined)) return current;
      await this.#records.amend(id, { ...(record ?? this.#record(undefined, 0n, undefined)), bytes: wanted });
      return wanted;
    });
  }

  /** As Driver.inventory.list. */
  async list(page: PageRequest, call: Call): Promise<Page<Volume>> {
    const { trees } = this.#parts;
    return pageOf(await trees.names(), isVolumeId, page, async id => {
      stillWanted(this.#space, call);
      return (await trees.isTree(id)) ? this.#volume(id, await this.#records.read(id)) : undefined;
    });
  }

  #error(code: CsiError["code"], text: string): CsiError {
    return new CsiError(code, `connection "${this.#space.connection}": ${text}`);
  }

  #file(id: string): string {
    return this.#space.layout.record("v", id);
  }

  #volume(id: string, record: VolumeRecord | undefined): Volume {
    return { id, bytes: record?.bytes ?? 0n, context: this.#parts.context(id), source: record?.source };
  }

  #record(name: string | undefined, bytes: bigint, source: Source | undefined): VolumeRecord {
    return { name, bytes, source, created: new Date(), connection: this.#space.connection };
  }

  /** The record of a volume that must exist; undefined for one that csimux did not make. */
  async #known(id: string): Promise<VolumeRecord | undefined> {
    if (isVolumeId(id) && (await this.#parts.trees.has(id))) return this.#records.read(id);
    await present(this.#space, "first");
    throw this.#error("not-found", `volume "${id.slice(0, 128)}" does not exist`);
  }

  /** Answers a create whose tree is there already. A tree of unknown name or size takes those that are asked for. */
  async #existing(id: string, spec: VolumeSpec): Promise<Volume> {
    const record = await this.#records.read(id);
    this.#compare(spec, record);
    try {
      // The call that made it may have ended before this step.
      await this.#parts.trees.sync();
      return this.#volume(id, await this.#adopted(id, spec, record));
    } catch (error) {
      throw unfinished(error, this.#space, `create volume "${spec.name}"`);
    }
  }

  /** The record of a tree that is now this volume, completed where something was not known. */
  async #adopted(id: string, spec: VolumeSpec, record: VolumeRecord | undefined): Promise<VolumeRecord> {
    if (record?.name !== undefined && record.bytes > 0n) return record;
    const bytes = record && record.bytes > 0n ? record.bytes : wantedBytes(spec.range);
    const taken = this.#record(spec.name, bytes, record?.source);
    const adopted = { ...taken, created: record?.created ?? taken.created };
    await this.#records.amend(id, adopted);
    return adopted;
  }

  /** Throws "already-exists" when the volume of this record cannot be the answer to `spec`. */
  #compare(spec: VolumeSpec, record: VolumeRecord | undefined): void {
    const { name, source, range } = spec;
    const exists = (why: string) => this.#error("already-exists", `volume "${name}" exists ${why}`);
    if (record?.name !== undefined && record.name !== name) throw exists(`with this id as "${record.name}"`);
    const equal = source && record?.source ? this.#parts.sameSource(source, record.source) : source === record?.source;
    if (!equal) throw exists("with another source, or with one that nothing proves; delete it first");
    if (record && record.bytes > 0n && !insideRange(record.bytes, range)) {
      throw exists(`with ${record.bytes} bytes, which is outside the range asked for`);
    }
  }

  async #plan(spec: VolumeSpec, call: Call): Promise<Plan<VolumeRecord>> {
    const { dress, snapshot } = this.#parts;
    const { source } = spec;
    const from = source && (source.kind === "volume" ? await this.origin(source.id) : await snapshot(source.id));
    const fill = async (folder: string) => {
      if (from) await copyFrom(this.#space, from.path, folder, call);
      await dress.apply(folder);
      stillWanted(this.#space, call);
    };
    const record = this.#record(spec.name, sizeFrom(spec.range, from), source);
    return { record, fill: (from === undefined ? dress.plain : undefined) ?? fill };
  }
}

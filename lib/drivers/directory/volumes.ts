import { type CapacityRange, insideRange, wantedBytes } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { backendName } from "../../core/name.ts";
import type { Context, Page, PageRequest, Source, Volume, VolumeSpec } from "../driver.ts";
import { isVolumeId } from "./layout.ts";
import { copyFrom, make } from "./making.ts";
import type { Dress } from "./owner.ts";
import { pageOf } from "./pages.ts";
import { type VolumeRecord, volumeRecords } from "./records.ts";
import { present, type Space, stillWanted } from "./space.ts";
import type { Trees } from "./trees.ts";

/** A tree that a volume can be made from. */
export interface Origin {
  readonly path: string;
  /** The smallest volume in bytes that may be made from it; 0 when unknown. */
  readonly bytes: bigint;
}

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

export interface Volumes {
  create(spec: VolumeSpec, call: Call): Promise<Volume>;
  delete(id: string, call: Call): Promise<void>;
  get(id: string): Promise<Volume>;
  find(name: string): Promise<Volume | undefined>;
  /** The tree of an existing volume. Throws "not-found". */
  origin(id: string): Promise<Origin>;
  /** Returns the new size in bytes. */
  expand(id: string, range: CapacityRange): Promise<bigint>;
  list(page: PageRequest, call: Call): Promise<Page<Volume>>;
}

/** The size in bytes of a volume made from `origin`: as asked, else at least as large as the origin. Throws "out-of-range". */
export function sizeFrom(range: CapacityRange, origin: Origin | undefined): bigint {
  const wanted = wantedBytes(range);
  const least = origin?.bytes ?? 0n;
  if (wanted >= least) return wanted;
  if (range.required === undefined && range.limit === undefined) return least;
  throw new CsiError(
    "out-of-range",
    `${wanted} bytes are less than the ${least} bytes of the source; ask for at least those`,
  );
}

/** Volumes as folders: create, find, resize and remove them. */
export function volumesOf(space: Space, parts: VolumeParts): Volumes {
  const { connection, layout } = space;
  const { trees } = parts;
  const records = volumeRecords(space);
  const taken = (name: string, why: string) =>
    new CsiError("already-exists", `connection "${connection}": volume "${name}" exists ${why}`);

  const volume = (id: string, record: VolumeRecord | undefined): Volume => ({
    id,
    bytes: record?.bytes ?? 0n,
    context: parts.context(id),
    source: record?.source,
  });

  const fresh = (name: string | undefined, bytes: bigint, source: Source | undefined): VolumeRecord => ({
    name,
    bytes,
    source,
    created: new Date(),
    connection,
  });

  const has = async (id: string) => isVolumeId(id) && (await trees.has(id));

  /** The record of a volume that must exist; undefined for one that csimux did not make. */
  const known = async (id: string): Promise<VolumeRecord | undefined> => {
    if (await has(id)) return records.read(id);
    await present(space);
    throw new CsiError("not-found", `connection "${connection}": volume "${id.slice(0, 128)}" does not exist`);
  };

  const origin = async (id: string): Promise<Origin> => {
    const record = await known(id);
    return { path: layout.tree("v", id), bytes: record?.bytes ?? 0n };
  };

  /** Throws "already-exists" when a volume of this id cannot be the answer to `spec`. */
  const compare = (spec: VolumeSpec, record: VolumeRecord | undefined): void => {
    const { name, source, range } = spec;
    if (record?.name !== undefined && record.name !== name) throw taken(name, `with this id as "${record.name}"`);
    const equal = source && record?.source ? parts.sameSource(source, record.source) : source === record?.source;
    if (!equal) throw taken(name, "with another source, or with one that nothing proves; delete it first");
    if (record && record.bytes > 0n && !insideRange(record.bytes, range)) {
      throw taken(name, `with ${record.bytes} bytes, which is outside the range asked for`);
    }
  };

  /** Answers a create whose tree is there already. A tree of unknown name or size takes those that are asked for. */
  const existing = async (id: string, spec: VolumeSpec): Promise<Volume> => {
    const record = await records.read(id);
    compare(spec, record);
    // The call that made it may have ended before this step.
    await trees.sync();
    if (record?.name !== undefined && record.bytes > 0n) return volume(id, record);
    const bytes = record && record.bytes > 0n ? record.bytes : wantedBytes(spec.range);
    const adopted = { ...fresh(spec.name, bytes, record?.source), ...(record && { created: record.created }) };
    await records.amend(id, adopted);
    return volume(id, adopted);
  };

  const plan = async (spec: VolumeSpec, call: Call) => {
    const { source } = spec;
    const from = source && (source.kind === "volume" ? await origin(source.id) : await parts.snapshot(source.id));
    const fill = async (folder: string) => {
      if (from) await copyFrom(space, from.path, folder, call);
      await parts.dress?.(folder);
      stillWanted(space, call);
    };
    return {
      record: fresh(spec.name, sizeFrom(spec.range, from), source),
      fill: from || parts.dress ? fill : undefined,
    };
  };

  const expand = async (id: string, range: CapacityRange): Promise<bigint> => {
    const record = await known(id);
    const wanted = wantedBytes(range);
    const current = record?.bytes ?? 0n;
    if (range.limit !== undefined && current > range.limit) {
      const text = `volume "${id}" has ${current} bytes already and never shrinks`;
      throw new CsiError("out-of-range", `connection "${connection}": ${text}`);
    }
    if (current >= wanted || (current > 0n && range.required === undefined)) return current;
    await records.amend(id, { ...(record ?? fresh(undefined, 0n, undefined)), bytes: wanted });
    return wanted;
  };

  return {
    origin,
    async create(spec, call) {
      const id = backendName(spec.name, parts.maxIdBytes);
      return trees.alone(id, async () => {
        if (await trees.has(id)) return existing(id, spec);
        await present(space);
        const subject = { trees, tree: id, records, key: id, file: layout.record("v", id) };
        return volume(id, await make(space, subject, () => plan(spec, call), call));
      });
    },
    async delete(id, call) {
      if (!isVolumeId(id)) return;
      // A volume of democratic-csi gets a record, so that a removal that is interrupted leaves a trace.
      const mark = () => records.start(id, fresh(undefined, 0n, undefined));
      await trees.alone(id, () => trees.remove(id, layout.record("v", id), mark, call));
    },
    get: async id => volume(id, await known(id)),
    async find(name) {
      const id = backendName(name, parts.maxIdBytes);
      if (!(await has(id))) {
        await present(space);
        return undefined;
      }
      const record = await records.read(id);
      return record?.name === undefined || record.name === name ? volume(id, record) : undefined;
    },
    expand: (id, range) => trees.alone(id, () => expand(id, range)),
    list: async (page, call) =>
      pageOf(await trees.names(), isVolumeId, page, async id => {
        stillWanted(space, call);
        return (await trees.isTree(id)) ? volume(id, await records.read(id)) : undefined;
      }),
  };
}

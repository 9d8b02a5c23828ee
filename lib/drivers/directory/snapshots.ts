import type { Call } from "../../core/call.ts";
import { unless } from "../../io/files.ts";
import type { Page, PageRequest, Snapshot, VolumeFilter } from "../driver.ts";
import { lookedFor, throwIfCancelled, unfinished } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { copyFrom, make, type SourceTree, type TreePlan } from "./creation.ts";
import { isVolumeId } from "./layout.ts";
import { errorOn, type OperationContext, present } from "./operation-context.ts";
import { isOfOther, type SnapshotRecord, snapshotRecords, type TreeRecords } from "./records.ts";
import {
  oldSource,
  parseSnapshotId,
  partsOfKey,
  partsOfTree,
  type SnapshotId,
  snapshotId,
  snapshotKey,
  usualSource,
} from "./snapshot-ids.ts";
import type { Trees } from "./trees.ts";

/** The parts of TreeSnapshots. */
export interface SnapshotParts {
  readonly trees: Trees;
  readonly volumeTrees: Trees;
  readonly maxIdBytes: number;
  /** The tree of an existing volume. Throws "not-found". */
  volume(id: string): Promise<SourceTree>;
}

/** Lists the ids of the existing volumes. */
type VolumeIds = () => Promise<readonly string[]>;

/** The snapshot with this id. */
export const snapshotOf = (
  id: string,
  { volumeId, bytes, created }: Pick<SnapshotRecord, "volumeId" | "bytes" | "created">,
): Snapshot => ({
  id,
  volumeId,
  bytes,
  createdAt: created,
  ready: true,
});

/** Snapshots as copies of a volume's folder ("filecopy"). Not atomic: a volume in use changes while it is copied. */
export class TreeSnapshots {
  readonly #context: OperationContext;
  readonly #parts: SnapshotParts;
  readonly #records: TreeRecords<SnapshotRecord>;

  constructor(context: OperationContext, parts: SnapshotParts) {
    this.#context = context;
    this.#parts = parts;
    this.#records = snapshotRecords(context);
  }

  async create(name: string, volumeId: string, call: Call): Promise<Snapshot> {
    const { trees, maxIdBytes } = this.#parts;
    const key = snapshotKey(name, maxIdBytes);
    const place = partsOfKey(key);
    return trees.alone(place.tree, async () => {
      const look = <T>(work: Promise<T>) => lookedFor(work, this.#context, `create snapshot "${name}"`);
      if (await look(trees.has(place.tree))) return this.#existing(key, name, volumeId);
      await look(present(this.#context));
      const file = this.#context.layout.record("s", key);
      const subject = { trees, tree: place.tree, records: this.#records, key, file };
      const record = await make(this.#context, subject, () => this.#plan(name, volumeId, call), call);
      return snapshotOf(snapshotId(place), record);
    });
  }

  async delete(id: string, call: Call): Promise<void> {
    const place = parseSnapshotId(id);
    if (place === undefined) return;
    const { trees } = this.#parts;
    const file = place.key === undefined ? undefined : this.#context.layout.record("s", place.key);
    // csimux never builds a tree under the name of an old folder, so its removal needs no record.
    const mark = async () => undefined;
    await trees.alone(place.tree, async () => {
      const current = await trees.current(place.tree, file);
      if (
        !this.#context.local &&
        place.key !== undefined &&
        isOfOther(place.key, await this.#records.read(place.key))
      ) {
        const text = "nothing to delete: the snapshot of this id has a name with other capitals";
        return call.log.warn(text, { snapshot: id });
      }
      await trees.remove(place.tree, { current, record: file, mark }, call);
    });
  }

  async get(id: string): Promise<Snapshot> {
    const snapshot = await this.#load(id, await this.#known(id), () => this.#volumeIds());
    if (snapshot) return snapshot;
    throw errorOn(
      this.#context,
      "internal",
      `the record of snapshot "${id}" cannot be read; restore it or delete the snapshot`,
    );
  }

  async list(filter: VolumeFilter, page: PageRequest, call: Call): Promise<Page<Snapshot>> {
    const { trees } = this.#parts;
    const { volumeId } = filter;
    let ids: Promise<readonly string[]> | undefined;
    const idsOnce = () => {
      ids ??= this.#volumeIds();
      return ids;
    };
    const isTree = (name: string) => partsOfTree(name) !== undefined;
    return pageOf(await trees.names(), isTree, page, async name => {
      throwIfCancelled(this.#context, call);
      const place = partsOfTree(name);
      if (place === undefined || !(await trees.isTree(name))) return undefined;
      const snapshot = await this.#load(snapshotId(place), place, idsOnce);
      if (!snapshot) call.log.warn("a snapshot without a readable record is not listed", { tree: name });
      return volumeId === undefined || snapshot?.volumeId === volumeId ? snapshot : undefined;
    });
  }

  /** The tree of a snapshot. Throws "not-found". */
  async origin(id: string): Promise<SourceTree> {
    const { tree, key } = await this.#known(id);
    const record = key === undefined ? undefined : await this.#records.read(key);
    return { path: this.#context.layout.tree("s", tree), bytes: record?.bytes ?? 0n };
  }

  async #volumeIds(): Promise<readonly string[]> {
    return (await this.#parts.volumeTrees.names()).filter(isVolumeId);
  }

  /** The parts of the id of an existing snapshot. Throws "not-found". */
  async #known(id: string): Promise<SnapshotId> {
    const place = parseSnapshotId(id);
    if (place && (await this.#parts.trees.has(place.tree))) {
      const isOther = place.key !== undefined && isOfOther(place.key, await this.#records.read(place.key));
      if (!isOther) return place;
    }
    await present(this.#context);
    throw errorOn(this.#context, "not-found", `snapshot "${id.slice(0, 160)}" does not exist`);
  }

  /** A snapshot with an existing tree; undefined if its record is unreadable. */
  async #load(id: string, { tree, key }: SnapshotId, volumeIds: VolumeIds): Promise<Snapshot | undefined> {
    if (key === undefined) return this.#loadOld(id, tree, volumeIds);
    const record = await this.#records.read(key);
    return record && snapshotOf(id, record);
  }

  /** A snapshot of democratic-csi, which consists of its folder alone; undefined if that has just vanished. */
  async #loadOld(id: string, tree: string, volumeIds: VolumeIds): Promise<Snapshot | undefined> {
    const facts = await unless(this.#context.files.facts(this.#context.layout.tree("s", tree)), "ENOENT");
    if (facts === undefined) return undefined;
    const volumeId = usualSource(tree) ?? oldSource(tree, await volumeIds());
    return { id, volumeId, bytes: 0n, createdAt: facts.changedAt, ready: true };
  }

  /** The result of creating an existing snapshot. */
  async #existing(key: string, name: string, volumeId: string): Promise<Snapshot> {
    const record = await lookedFor(this.#records.read(key), this.#context, `create snapshot "${name}"`);
    if (record?.name !== name || record.volumeId !== volumeId) {
      const whose = record ? `of volume "${record.volumeId}"` : "but its record cannot be read";
      throw errorOn(this.#context, "already-exists", `snapshot "${name}" exists, ${whose}`);
    }
    try {
      // The call that created it may have ended before this step.
      await this.#parts.trees.sync();
    } catch (error) {
      throw unfinished(error, this.#context, `create snapshot "${name}"`);
    }
    return snapshotOf(snapshotId(partsOfKey(key)), record);
  }

  async #plan(name: string, volumeId: string, call: Call): Promise<TreePlan<SnapshotRecord>> {
    const { path, bytes } = await this.#parts.volume(volumeId);
    const fill = async (folder: string) => {
      await copyFrom(this.#context, path, folder, call);
      throwIfCancelled(this.#context, call);
    };
    return { record: { name, volumeId, bytes, created: new Date(), connection: this.#context.connection }, fill };
  }
}

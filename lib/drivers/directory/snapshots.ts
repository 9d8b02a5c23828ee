import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Context, Driver, Snapshot } from "../driver.ts";
import { unless } from "./files.ts";
import { isVolumeId } from "./layout.ts";
import { copyFrom, make } from "./making.ts";
import { pageOf } from "./pages.ts";
import { type SnapshotRecord, snapshotRecords } from "./records.ts";
import {
  oldSource,
  parseSnapshotId,
  placeOfKey,
  placeOfTree,
  type SnapshotPlace,
  snapshotId,
  snapshotKey,
  usualSource,
} from "./snapshot-ids.ts";
import { present, type Space, stillWanted } from "./space.ts";
import type { Trees } from "./trees.ts";
import type { Origin } from "./volumes.ts";

/** What the snapshots of a connection are made with. */
export interface SnapshotParts {
  readonly trees: Trees;
  readonly volumeTrees: Trees;
  readonly maxIdBytes: number;
  /** `snapshots.default_driver`. */
  readonly method: string;
  /** The tree of an existing volume. Throws "not-found". */
  volume(id: string): Promise<Origin>;
}

export interface Snapshots {
  readonly ability: NonNullable<Driver["snapshots"]>;
  /** The tree of a snapshot. Throws "not-found". */
  origin(id: string): Promise<Origin>;
}

/** Snapshots as copies of a volume's folder ("filecopy"). Not atomic: a volume in use changes while it is copied. */
export function snapshotsOf(space: Space, parts: SnapshotParts): Snapshots {
  const { connection, files, layout } = space;
  const { trees } = parts;
  const records = snapshotRecords(space);
  const missing = (id: string) =>
    new CsiError("not-found", `connection "${connection}": snapshot "${id.slice(0, 160)}" does not exist`);

  const checkMethod = (parameters: Context) => {
    const method = parameters["driver"] ?? parts.method;
    if (method === "filecopy") return;
    throw new CsiError(
      "invalid-argument",
      `connection "${connection}": snapshots by "${method.slice(0, 64)}" are not supported; use "filecopy"`,
    );
  };

  const told = (id: string, record: SnapshotRecord): Snapshot => ({
    id,
    volumeId: record.volumeId,
    bytes: record.bytes,
    createdAt: record.created,
    ready: true,
  });

  const volumeIds = async (): Promise<readonly string[]> => (await parts.volumeTrees.names()).filter(isVolumeId);

  /** A snapshot that democratic-csi made: nothing is known but its folder. Undefined when that has just gone. */
  const toldOld = async (id: string, tree: string, known: typeof volumeIds): Promise<Snapshot | undefined> => {
    const facts = await unless(files.facts(layout.tree("s", tree)), "ENOENT");
    const volumeId = usualSource(tree) ?? oldSource(tree, await known());
    return facts && { id, volumeId, bytes: 0n, createdAt: facts.changedAt, ready: true };
  };

  /** Undefined when its record cannot be read. The tree exists. */
  const load = async (id: string, place: SnapshotPlace, known: typeof volumeIds): Promise<Snapshot | undefined> => {
    if (place.key === undefined) return toldOld(id, place.tree, known);
    const record = await records.read(place.key);
    return record && told(id, record);
  };

  /** The place of a snapshot that must exist. */
  const known = async (id: string): Promise<SnapshotPlace> => {
    const place = parseSnapshotId(id);
    if (place && (await trees.has(place.tree))) return place;
    await present(space);
    throw missing(id);
  };

  const existing = async (key: string, name: string, volumeId: string): Promise<Snapshot> => {
    const record = await records.read(key);
    if (record?.name !== name || record.volumeId !== volumeId) {
      const whose = record ? `of volume "${record.volumeId}"` : "but its record cannot be read";
      throw new CsiError("already-exists", `connection "${connection}": snapshot "${name}" exists, ${whose}`);
    }
    await trees.sync();
    return told(snapshotId(placeOfKey(key)), record);
  };

  const plan = async (name: string, volumeId: string, call: Call) => {
    const from = await parts.volume(volumeId);
    const record = { name, volumeId, bytes: from.bytes, created: new Date(), connection };
    const fill = async (folder: string) => {
      await copyFrom(space, from.path, folder, call);
      stillWanted(space, call);
    };
    return { record, fill };
  };

  const isTree = (name: string) => placeOfTree(name) !== undefined;

  return {
    async origin(id) {
      const place = await known(id);
      const record = place.key === undefined ? undefined : await records.read(place.key);
      return { path: layout.tree("s", place.tree), bytes: record?.bytes ?? 0n };
    },
    ability: {
      async create(name, volumeId, parameters, call) {
        checkMethod(parameters);
        const key = snapshotKey(name, parts.maxIdBytes);
        const { tree } = placeOfKey(key);
        return trees.alone(tree, async () => {
          if (await trees.has(tree)) return existing(key, name, volumeId);
          await present(space);
          const subject = { trees, tree, records, key, file: layout.record("s", key) };
          const record = await make(space, subject, () => plan(name, volumeId, call), call);
          return told(snapshotId(placeOfKey(key)), record);
        });
      },
      async delete(id, call) {
        const place = parseSnapshotId(id);
        if (place === undefined) return;
        const file = place.key === undefined ? undefined : layout.record("s", place.key);
        // Nothing is ever built under the name of an old folder, so its removal needs no record.
        await trees.alone(place.tree, () => trees.remove(place.tree, file, async () => undefined, call));
      },
      async get(id) {
        const snapshot = await load(id, await known(id), volumeIds);
        if (snapshot) return snapshot;
        throw new CsiError(
          "internal",
          `connection "${connection}": the record of snapshot "${id}" cannot be read; restore or delete it`,
        );
      },
      async list({ volumeId }, page, call) {
        let ids: Promise<readonly string[]> | undefined;
        const idsOnce = () => (ids ??= volumeIds());
        return pageOf(await trees.names(), isTree, page, async name => {
          stillWanted(space, call);
          const place = placeOfTree(name);
          if (place === undefined || !(await trees.isTree(name))) return undefined;
          const snapshot = await load(snapshotId(place), place, idsOnce);
          if (!snapshot) call.log.warn("a snapshot without a readable record is not listed", { tree: name });
          return volumeId === undefined || snapshot?.volumeId === volumeId ? snapshot : undefined;
        });
      },
    },
  };
}

/** Whether two snapshot ids lead to the same folder. */
export const sameSnapshot = (a: string, b: string): boolean =>
  a === b || parseSnapshotId(a)?.tree === parseSnapshotId(b)?.tree;

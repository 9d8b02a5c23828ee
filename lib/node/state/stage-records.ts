import { createHash } from "node:crypto";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { type AccessMode, accessModes } from "../../core/access.ts";
import type { Log } from "../../core/call.ts";
import { isMapping } from "../../core/mapping.ts";
import type { AttachmentNotes, SaveNotes } from "../attach/attacher.ts";
import { fileFailure } from "../mount/files.ts";
import type { Identity } from "../mount/mount-table.ts";
import type { VolumeContext } from "../requests.ts";
import { hasTexts, RecordFolder } from "./record-folder.ts";

/** A target path at which a volume was published, or was about to be. */
export interface PublishedTarget {
  /** The real path of the target. */
  readonly target: string;
  readonly readonly: boolean;
  readonly mode: AccessMode;
  /** A hash of all arguments except secrets and target, to recognise a retry (CSI NodePublishVolume). */
  readonly digest: string;
  /** The identity of its mount; absent in records of older versions. */
  readonly shows?: Identity;
  /** The staging path that it was published from, if that was not the first one. */
  readonly staging?: string;
}

/** A further staging path of a volume: a bind mount of the first. Nomad stages a volume once for each kind of use. */
export interface FurtherStaging {
  readonly path: string;
  readonly mode: AccessMode;
  readonly flags: readonly string[];
}

/** A mounted file system and the device file that holds it. */
export interface MountedFilesystem {
  readonly source: string;
  /** The number of `source` as "major:minor". */
  readonly number: string;
  readonly fsType: string;
}

/** The form in which a volume was attached, except for a folder; identifies its mount and device. */
export type AttachedAs =
  | { readonly kind: "share"; readonly fsType: string; readonly source: string }
  | {
      readonly kind: "device";
      readonly path: string;
      readonly number: string;
      readonly identity: string;
      /** Absent for block access. */
      readonly mounted?: MountedFilesystem;
    };

/** The record of a staged volume: data that later calls need and CSI does not send. Written before anything is done. */
export interface StageRecord {
  readonly volumeId: string;
  /** The real path of the staging folder. */
  readonly stagingPath: string;
  readonly protocol: string;
  readonly context: VolumeContext;
  readonly kind: "mount" | "block";
  readonly fsType: string | undefined;
  readonly mode: AccessMode;
  /** The flags of the staging mount. */
  readonly flags: readonly string[];
  /** The identity of the volume's mounts; undefined until it is attached. */
  readonly shows: Identity | undefined;
  /** Undefined for a folder, and until the volume is attached. */
  readonly attached: AttachedAs | undefined;
  /** Data that the attacher needs to detach the volume. */
  readonly notes: AttachmentNotes;
  /** Why the file system is smaller than its disk. */
  readonly notGrown?: string | undefined;
  readonly published: readonly PublishedTarget[];
  readonly further?: readonly FurtherStaging[];
}

/** The parts of a record that are known only later. */
export const notYetAttached = { shows: undefined, attached: undefined, notes: {}, published: [] } as const;

const version = 1;

/** The name of the device file in the staging folder of a block volume, as in democratic-csi. */
export const blockFile = "block_device";

/** The path of the staged mount: the staging path, or a file in that folder. */
export const stagedAt = ({ kind, stagingPath }: Pick<StageRecord, "kind" | "stagingPath">): string =>
  kind === "block" ? join(stagingPath, blockFile) : stagingPath;

/** Whether this real path is one of the staging paths of the volume. */
export const isStagingPath = (record: StageRecord | undefined, path: string): record is StageRecord =>
  record !== undefined && (record.stagingPath === path || furtherAt(record, path) !== undefined);

/** The further staging of the volume at this real path. */
export const furtherAt = (record: StageRecord | undefined, path: string): FurtherStaging | undefined =>
  record?.further?.find(staging => staging.path === path);

/** All mount points of the volume according to its record. */
export const mountPointsOf = (record: StageRecord): readonly string[] => [
  stagedAt(record),
  ...(record.further ?? []).map(({ path }) => stagedAt({ kind: record.kind, stagingPath: path })),
  ...record.published.map(({ target }) => target),
];

/** Whether a record names this real path as the mount point of a staging or as a target path. */
export const namesPath = (record: StageRecord | undefined, path: string): boolean =>
  record !== undefined && mountPointsOf(record).includes(path);

/** Whether the volume was, or was about to be, published at this real path according to the record. */
export const isTarget = (record: StageRecord | undefined, path: string): boolean =>
  record?.published.some(published => published.target === path) ?? false;

/** The prefix of keys that the kubelet adds for each pod; not stored, because they include service account tokens. */
const podInfoPrefix = "csi.storage.k8s.io/";

/** A volume context without the keys of a single pod. */
export const contextWithoutPodInfo = (context: VolumeContext): VolumeContext =>
  Object.fromEntries(Object.entries(context).filter(([key]) => !key.startsWith(podInfoPrefix)));

/** Records of staged volumes. Usually not fsynced: a crash removes the described mount as well. */
export class StageRecords {
  readonly #folder: RecordFolder<StageRecord>;

  constructor(folder: string) {
    this.#folder = new RecordFolder(folder, "the record of volume", parse);
  }

  /** The record of a volume. An unreadable one is renamed to `….bad-<time>` with a warning and counts as absent. */
  async find(volumeId: string, log: Log): Promise<StageRecord | undefined> {
    const found = await this.#folder.read(volumeId);
    if (!found || found.record?.volumeId === volumeId) return found?.record;
    const file = this.#folder.file(volumeId);
    const aside = `${file}.bad-${Date.now()}`;
    log.warn("the record of a staged volume is unreadable and was renamed", { volumeId, file: aside });
    await rename(file, aside).catch((cause: unknown) => {
      throw fileFailure(cause, `renaming ${file}`);
    });
    return undefined;
  }

  /** Whether the record of another volume names this real path as its staging or target path. Reads all records. */
  async isNamedByOther(path: string, volumeId: string): Promise<boolean> {
    return (await this.seen()).some(record => record.volumeId !== volumeId && namesPath(record, path));
  }

  /** The readable records of all volumes. */
  all(): Promise<readonly StageRecord[]> {
    return this.#folder.all();
  }

  /** Like `all`, but throws "unavailable" if this process can read nothing. */
  seen(): Promise<readonly StageRecord[]> {
    return this.#folder.seen();
  }

  /** The ids of all volumes with a record; undefined if a record cannot be read. */
  async volumes(): Promise<readonly string[] | undefined> {
    return (await this.#folder.complete())?.map(({ volumeId }) => volumeId);
  }

  /** Throws as fileFailure does. If `lasting`, the record survives a crash of the machine. */
  async save(record: StageRecord, lasting = false): Promise<void> {
    const versioned = { version, ...record };
    await this.#folder.write(record.volumeId, versioned, lasting);
  }

  /** Removes the record; succeeds if there is none. */
  async remove(volumeId: string): Promise<void> {
    await this.#folder.remove(volumeId);
  }
}

const modes: ReadonlySet<unknown> = new Set(accessModes);

const isTexts = (value: unknown): boolean => isMapping(value) && hasTexts(value, Object.keys(value));

function parse(value: unknown): StageRecord | undefined {
  if (!isMapping(value)) return undefined;
  const whole = { ...value, attached: value["attached"], notes: value["notes"] ?? {} };
  return isRecord(whole) ? whole : undefined;
}

const isRecord = (value: Readonly<Record<string, unknown>>): value is Readonly<Record<string, unknown>> & StageRecord =>
  value["version"] === version &&
  hasTexts(value, ["volumeId", "stagingPath", "protocol"]) &&
  isTexts(value["context"]) &&
  (value["kind"] === "mount" || value["kind"] === "block") &&
  (value["fsType"] === undefined || hasTexts(value, ["fsType"])) &&
  modes.has(value["mode"]) &&
  isFlags(value["flags"]) &&
  isIdentity(value["shows"]) &&
  isAttached(value["attached"]) &&
  isTexts(value["notes"]) &&
  (value["notGrown"] === undefined || hasTexts(value, ["notGrown"])) &&
  Array.isArray(value["published"]) &&
  value["published"].every(isPublished) &&
  (value["further"] === undefined || (Array.isArray(value["further"]) && value["further"].every(isFurther)));

const isFlags = (value: unknown): boolean => Array.isArray(value) && value.every(flag => typeof flag === "string");

const isFurther = (value: unknown): boolean =>
  isMapping(value) && hasTexts(value, ["path"]) && modes.has(value["mode"]) && isFlags(value["flags"]);

const isIdentity = (value: unknown): boolean => value === undefined || hasTexts(value, ["device", "root"]);

function isAttached(value: unknown): boolean {
  if (value === undefined) return true;
  if (!isMapping(value)) return false;
  const { kind, mounted, ...texts } = value;
  const keys = kind === "share" ? ["fsType", "source"] : kind === "device" ? ["path", "number", "identity"] : undefined;
  return keys !== undefined && isTexts(texts) && hasTexts(texts, keys) && (mounted === undefined || isTexts(mounted));
}

const isPublished = (value: unknown): boolean =>
  isMapping(value) &&
  hasTexts(value, ["target", "digest"]) &&
  isIdentity(value["shows"]) &&
  typeof value["readonly"] === "boolean" &&
  (value["staging"] === undefined || hasTexts(value, ["staging"])) &&
  modes.has(value["mode"]);

const terms = ({ stagingPath, protocol, kind, fsType, mode, flags }: StageRecord): string =>
  digest({ stagingPath, protocol, kind, fsType, mode, flags });

/** Whether two records were made by equal staging calls. */
export const isSameStaging = (before: StageRecord | undefined, record: StageRecord): boolean =>
  before !== undefined && terms(before) === terms(record);

/**
 * Whether two records were made by staging calls for the same use. Their flags may differ: those of a file of the node (`node.mount.mount_flags`)
 * may have changed meanwhile, and the kubelet stages every volume in use again when it has restarted.
 */
export const isSameUse = (before: StageRecord | undefined, record: StageRecord): boolean =>
  before !== undefined && isSameStaging({ ...before, flags: record.flags }, record);

const rest = ({ shows, context, attached, notes, notGrown }: StageRecord) => ({
  notGrown,
  shows: { ...shows },
  context,
  attached: { ...attached },
  notes,
});

const isSame = (a: StageRecord, b: StageRecord): boolean => isSameStaging(a, b) && digest(rest(a)) === digest(rest(b));

/** The record of one staging in progress; writes it only when it changes. */
export class StageRecordWriter {
  readonly #records: StageRecords;
  #record: StageRecord;
  #saved: StageRecord | undefined;

  constructor(records: StageRecords, record: StageRecord, saved: StageRecord | undefined) {
    this.#records = records;
    this.#record = record;
    this.#saved = saved;
  }

  /** The current record. */
  get record(): StageRecord {
    return this.#record;
  }

  /** Changes the record and writes it. Throws as StageRecords.save does. */
  async save(more: Partial<StageRecord> = {}, lasting = false): Promise<void> {
    this.#record = { ...this.#record, ...more };
    if (this.#saved && isSame(this.#record, this.#saved)) return;
    await this.#records.save(this.#record, lasting);
    this.#saved = this.#record;
  }

  /** Adds notes and resolves once they are on disk. */
  readonly note: SaveNotes = notes => this.save({ notes: { ...this.#record.notes, ...notes } }, true);

  /** Makes an earlier record valid again. */
  async restore(record: StageRecord): Promise<void> {
    this.#record = record;
    await this.save();
  }
}

type Value = string | boolean | undefined | readonly string[] | { readonly [key: string]: Value };

/** A hash of plain values that ignores the order of keys and treats a missing key as undefined. */
export const digest = (value: Value): string => createHash("sha256").update(ordered(value)).digest("hex");

function ordered(value: Value): string {
  if (typeof value !== "object" || Array.isArray(value)) return JSON.stringify(value ?? null);
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{${entries
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, item]) => `${JSON.stringify(key)}:${ordered(item)}`)
    .join()}}`;
}

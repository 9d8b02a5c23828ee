import { rename } from "node:fs/promises";
import { join } from "node:path";
import { type AccessMode, accessModes } from "../../core/access.ts";
import type { Log } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Notes } from "../attach/attacher.ts";
import { fileFailure } from "../mount/files.ts";
import type { Identity } from "../mount/mount-table.ts";
import type { Context } from "../requests.ts";
import { RecordFolder } from "./record-folder.ts";

/** One place at which a volume was published, or was about to be. */
export interface PublishedTarget {
  /** The real place of the target. */
  readonly target: string;
  readonly readonly: boolean;
  readonly mode: AccessMode;
  /** Hash of all arguments but secrets and target, to tell a repeated call from another one (CSI NodePublishVolume). */
  readonly digest: string;
  /** What its mount shows; absent in records of older versions. */
  readonly shows?: Identity;
}

/** A file system that is mounted, and the device file that holds it. */
export interface MountedFilesystem {
  readonly source: string;
  /** The number of `source` as "major:minor". */
  readonly number: string;
  readonly fsType: string;
}

/** What a volume was attached as, where that is more than a folder: by this a mount is known again, and what it is made of. */
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

/** What was staged on this node: what later calls need and CSI does not send with them. Written before anything is done. */
export interface StageRecord {
  readonly volumeId: string;
  /** The real place of the staging folder. */
  readonly stagingPath: string;
  readonly protocol: string;
  readonly context: Context;
  readonly kind: "mount" | "block";
  readonly fsType: string | undefined;
  readonly mode: AccessMode;
  /** Flags of the staged mount. */
  readonly flags: readonly string[];
  /** What the mounts of this volume show; undefined until it is attached. */
  readonly shows: Identity | undefined;
  /** Undefined for a folder, and until the volume is attached. */
  readonly attached: AttachedAs | undefined;
  /** What its attacher needs to detach it. */
  readonly notes: Notes;
  readonly published: readonly PublishedTarget[];
}

const version = 1;

/** The name of the device file in the staging folder of a volume of block access; that of democratic-csi. */
export const blockFile = "block_device";

/** Where the staged volume is mounted: at the staging path, or as a file in that folder. */
export const stagedAt = ({ kind, stagingPath }: Pick<StageRecord, "kind" | "stagingPath">): string =>
  kind === "block" ? join(stagingPath, blockFile) : stagingPath;

/** Whether a record names this real place, as staged or target. */
export const namesPath = (record: StageRecord | undefined, place: string): boolean =>
  record !== undefined && (stagedAt(record) === place || isTarget(record, place));

/** Whether the record says that the volume was, or was about to be, published at this real place. */
export const isTarget = (record: StageRecord | undefined, place: string): boolean =>
  record?.published.some(published => published.target === place) ?? false;

/** Keys that the kubelet adds for each pod; service account tokens are among them, so none is kept. */
const podInfoPrefix = "csi.storage.k8s.io/";

/** A volume context without what belongs to a single pod. */
export const contextWithoutPodInfo = (context: Context): Context =>
  Object.fromEntries(Object.entries(context).filter(([key]) => !key.startsWith(podInfoPrefix)));

/** The records of staged volumes. Mostly not forced to disk: a mount that a record describes is gone after a crash. */
export class StageRecords {
  readonly #folder: RecordFolder;

  /** `folder` is made when it is missing, readable by root alone. */
  constructor(folder: string) {
    this.#folder = new RecordFolder(folder);
  }

  /**
   * The record of a volume. An unreadable one is renamed to `….bad-<time>` with a warning and counts as absent.
   * Throws "unavailable" when the folder does not answer.
   */
  async find(volumeId: string, log: Log): Promise<StageRecord | undefined> {
    const text = await this.#folder.read(volumeId).catch((cause: unknown) => {
      throw new CsiError("unavailable", `the record of volume "${volumeId}" cannot be read`, { cause });
    });
    if (text === undefined) return undefined;
    const record = parse(text);
    if (record?.volumeId === volumeId) return record;
    const file = this.#folder.file(volumeId);
    const aside = `${file}.bad-${Date.now()}`;
    log.warn("the record of a staged volume is unreadable and was put aside", { volumeId, file: aside });
    await rename(file, aside).catch((cause: unknown) => {
      throw fileFailure(cause, `putting ${file} aside`);
    });
    return undefined;
  }

  /** Whether the record of another volume names this real path, as staged or target. Reads all records. */
  async isNamedByOther(path: string, volumeId: string): Promise<boolean> {
    return (await this.all()).some(record => record.volumeId !== volumeId && namesPath(record, path));
  }

  /** The readable records of all volumes. */
  async all(): Promise<readonly StageRecord[]> {
    return (await this.#folder.all()).map(parse).filter(record => record !== undefined);
  }

  /**
   * Throws "resource-exhausted" when the disk is full, "unavailable" and "failed-precondition" for other failures.
   * `lasting` also survives a crash of the machine.
   */
  async save(record: StageRecord, lasting = false): Promise<void> {
    const { volumeId } = record;
    await this.#folder.write(volumeId, JSON.stringify({ version, ...record }), lasting).catch((cause: unknown) => {
      throw fileFailure(cause, `writing the record of volume "${volumeId}" to ${this.#folder.file(volumeId)}`);
    });
  }

  /** Success when there is none. */
  async remove(volumeId: string): Promise<void> {
    await this.#folder.remove(volumeId).catch((cause: unknown) => {
      throw fileFailure(cause, `removing the record of volume "${volumeId}"`);
    });
  }
}

const modes: ReadonlySet<unknown> = new Set(accessModes);

type JsonObject = Readonly<Record<string, unknown>>;

const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === "string";
const isTexts = (value: unknown): boolean => isJsonObject(value) && Object.values(value).every(isText);

function parse(text: string): StageRecord | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isJsonObject(value)) return undefined;
    const whole = { ...value, attached: value["attached"], notes: value["notes"] ?? {} };
    return isRecord(whole) ? whole : undefined;
  } catch {
    return undefined;
  }
}

const isRecord = (value: JsonObject): value is JsonObject & StageRecord =>
  value["version"] === version &&
  [value["volumeId"], value["stagingPath"], value["protocol"]].every(isText) &&
  isTexts(value["context"]) &&
  (value["kind"] === "mount" || value["kind"] === "block") &&
  (value["fsType"] === undefined || isText(value["fsType"])) &&
  modes.has(value["mode"]) &&
  Array.isArray(value["flags"]) &&
  value["flags"].every(isText) &&
  (value["shows"] === undefined || isIdentity(value["shows"])) &&
  (value["attached"] === undefined || isKept(value["attached"])) &&
  isTexts(value["notes"]) &&
  Array.isArray(value["published"]) &&
  value["published"].every(isPublished);

const isIdentity = (value: unknown): value is Identity =>
  isJsonObject(value) && isText(value["device"]) && isText(value["root"]);

const isKept = (value: unknown): boolean => {
  if (!isJsonObject(value)) return false;
  const { kind, mounted, ...texts } = value;
  if (!Object.values(texts).every(isText)) return false;
  if (kind === "share") return isText(texts["fsType"]) && isText(texts["source"]);
  const device = isText(texts["path"]) && isText(texts["number"]) && isText(texts["identity"]);
  return kind === "device" && device && (mounted === undefined || isTexts(mounted));
};

const isPublished = (value: unknown): value is PublishedTarget =>
  isJsonObject(value) &&
  isText(value["target"]) &&
  isText(value["digest"]) &&
  (value["shows"] === undefined || isIdentity(value["shows"])) &&
  typeof value["readonly"] === "boolean" &&
  modes.has(value["mode"]);

import { createHash } from "node:crypto";
import { access, mkdir, readdir, readFile, rename, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type AccessMode, accessModes } from "../core/access.ts";
import type { Log } from "../core/call.ts";
import { errnoOf } from "../core/errno.ts";
import { CsiError } from "../core/errors.ts";
import { fileFailure } from "./files.ts";
import type { Identity } from "./mount-table.ts";
import type { Context } from "./requests.ts";

/** One place at which a volume was published, or was about to be. */
export interface Published {
  /** The real place of the target. */
  readonly target: string;
  readonly readonly: boolean;
  readonly mode: AccessMode;
  /** Hash of all arguments but secrets and target, to tell a repeated call from another one (CSI NodePublishVolume). */
  readonly digest: string;
}

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
  readonly published: readonly Published[];
}

const version = 1;

const ending = ".json";

/** Whether a record names this real place, as staging path or target. */
export const claims = (record: StageRecord | undefined, place: string): boolean =>
  record?.stagingPath === place || isTarget(record, place);

/** Whether the record says that the volume was, or was about to be, published at this real place. */
export const isTarget = (record: StageRecord | undefined, place: string): boolean =>
  record?.published.some(published => published.target === place) ?? false;

/** Keys that the kubelet adds for each pod; service account tokens are among them, so none is kept. */
const ofPods = "csi.storage.k8s.io/";

/** A volume context without what belongs to a single pod. */
export const lastingContext = (context: Context): Context =>
  Object.fromEntries(Object.entries(context).filter(([key]) => !key.startsWith(ofPods)));

/**
 * One small file for each volume in a folder that survives restarts. Written to a second name and renamed, so that a reader sees
 * the old or the new record, never half of one. It is not forced to disk: what it describes is gone after a crash of the machine.
 */
export class Records {
  readonly #folder: string;

  /** `folder` is made when it is missing, for root's eyes only. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * The record of a volume. An unreadable one is renamed to `….bad-<time>` with a warning and counts as absent.
   * Throws "unavailable" when the folder does not answer.
   */
  async find(volumeId: string, log: Log): Promise<StageRecord | undefined> {
    const file = this.#file(volumeId);
    const text = await readFile(file, "utf8").catch((cause: unknown) => {
      if (errnoOf(cause) === "ENOENT") return undefined;
      throw new CsiError("unavailable", `the record of volume "${volumeId}" cannot be read`, { cause });
    });
    if (text === undefined) return undefined;
    const record = parse(text);
    if (record?.volumeId === volumeId) return record;
    const aside = `${file}.bad-${Date.now()}`;
    log.warn("the record of a staged volume is unreadable and was put aside", { volumeId, file: aside });
    await rename(file, aside).catch((cause: unknown) => {
      throw fileFailure(cause, `putting ${file} aside`);
    });
    return undefined;
  }

  /** Whether the record of another volume claims this real place, as staging path or target. Reads all records. */
  async claimedByOther(place: string, volumeId: string): Promise<boolean> {
    const files = await readdir(this.#folder).catch(() => []);
    const read = async (file: string): Promise<boolean> => {
      const record = parse(await readFile(join(this.#folder, file), "utf8").catch(() => ""));
      return record !== undefined && record.volumeId !== volumeId && claims(record, place);
    };
    const answers = await Promise.all(files.filter(file => file.endsWith(ending)).map(read));
    return answers.includes(true);
  }

  /** Throws "resource-exhausted" when the disk is full, "unavailable" and "failed-precondition" for other failures. */
  async save(record: StageRecord): Promise<void> {
    const file = this.#file(record.volumeId);
    try {
      await this.#write(`${file}.new`, JSON.stringify({ version, ...record }));
      await rename(`${file}.new`, file);
    } catch (cause) {
      throw fileFailure(cause, `writing the record of volume "${record.volumeId}" to ${file}`);
    }
  }

  /** Success when there is none. What an interrupted or failed `save` left goes as well. */
  async remove(volumeId: string): Promise<void> {
    const file = this.#file(volumeId);
    await unlink(`${file}.new`).catch(() => {});
    await unlink(file).catch(async (cause: unknown) => {
      // A read-only file system is mentioned before a missing file.
      if (errnoOf(cause) === "ENOENT" || (errnoOf(cause) === "EROFS" && !(await isThere(file)))) return;
      throw fileFailure(cause, `removing the record of volume "${volumeId}"`);
    });
  }

  async #write(file: string, text: string): Promise<void> {
    try {
      await writeFile(file, text, { mode: 0o600 });
    } catch (cause) {
      if (errnoOf(cause) !== "ENOENT") throw cause;
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await writeFile(file, text, { mode: 0o600 });
    }
  }

  #file(volumeId: string): string {
    return join(this.#folder, `${createHash("sha256").update(volumeId).digest("hex")}${ending}`);
  }
}

const isThere = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );

const modes: ReadonlySet<unknown> = new Set(accessModes);

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === "string";

function parse(text: string): StageRecord | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isFields(value) && isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const isRecord = (value: Fields): value is Fields & StageRecord =>
  value["version"] === version &&
  [value["volumeId"], value["stagingPath"], value["protocol"]].every(isText) &&
  isFields(value["context"]) &&
  Object.values(value["context"]).every(isText) &&
  (value["kind"] === "mount" || value["kind"] === "block") &&
  (value["fsType"] === undefined || isText(value["fsType"])) &&
  modes.has(value["mode"]) &&
  Array.isArray(value["flags"]) &&
  value["flags"].every(isText) &&
  (value["shows"] === undefined || isIdentity(value["shows"])) &&
  Array.isArray(value["published"]) &&
  value["published"].every(isPublished);

const isIdentity = (value: unknown): value is Identity =>
  isFields(value) && isText(value["device"]) && isText(value["root"]);

const isPublished = (value: unknown): value is Published =>
  isFields(value) &&
  isText(value["target"]) &&
  isText(value["digest"]) &&
  typeof value["readonly"] === "boolean" &&
  modes.has(value["mode"]);

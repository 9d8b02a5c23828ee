import { errnoOf } from "../../core/errors.ts";
import type { Source } from "../driver.ts";
import type { TreeKind } from "./layout.ts";
import { type OperationContext, withFolders } from "./operation-context.ts";

/** What csimux knows of a volume beyond its tree. */
export interface VolumeRecord {
  /** The name that the caller chose; undefined when the volume was there before csimux. */
  readonly name: string | undefined;
  /** The size asked for, in bytes; 0 when nobody has told yet. */
  readonly bytes: bigint;
  readonly source: Source | undefined;
  readonly created: Date;
  readonly connection: string;
}

export interface SnapshotRecord {
  readonly name: string;
  readonly volumeId: string;
  /** The size in bytes that its volume had been asked for; 0 when unknown. */
  readonly bytes: bigint;
  readonly created: Date;
  readonly connection: string;
}

type JsonObject = Readonly<Record<string, unknown>>;

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const isFields = (value: unknown): value is JsonObject => typeof value === "object" && value !== null;

function size(value: unknown): bigint | undefined {
  return typeof value === "string" && /^\d{1,19}$/.test(value) ? BigInt(value) : undefined;
}

function date(value: unknown): Date | undefined {
  const parsed = new Date(text(value) ?? "");
  return Number.isNaN(parsed.getTime()) ? undefined : parsed;
}

function source(value: unknown): Source | undefined {
  if (!isFields(value)) return undefined;
  const id = text(value["id"]);
  const kind = value["kind"];
  return id !== undefined && (kind === "volume" || kind === "snapshot") ? { kind, id } : undefined;
}

function volumeRecord(fields: JsonObject): VolumeRecord | undefined {
  const bytes = size(fields["bytes"]);
  const created = date(fields["created"]);
  const connection = text(fields["connection"]);
  if (bytes === undefined || created === undefined || connection === undefined) return undefined;
  return { name: text(fields["name"]), bytes, source: source(fields["source"]), created, connection };
}

function snapshotRecord(fields: JsonObject): SnapshotRecord | undefined {
  const name = text(fields["name"]);
  const volumeId = text(fields["volumeId"]);
  const bytes = size(fields["bytes"]);
  const created = date(fields["created"]);
  const connection = text(fields["connection"]);
  if (name === undefined || volumeId === undefined || bytes === undefined) return undefined;
  return created && connection !== undefined ? { name, volumeId, bytes, created, connection } : undefined;
}

function lastOf<R>(content: string, read: (fields: JsonObject) => R | undefined): R | undefined {
  for (const line of content.split("\n").reverse()) {
    try {
      const fields: unknown = JSON.parse(line);
      const record = isFields(fields) ? read(fields) : undefined;
      if (record) return record;
    } catch {
      // An interrupted append leaves half a line; the line before it still stands.
    }
  }
  return undefined;
}

const line = (record: VolumeRecord | SnapshotRecord): string =>
  `${JSON.stringify({ ...record, bytes: record.bytes.toString() })}\n`;

type Read<R> = (fields: JsonObject) => R | undefined;

/** One sort of record, read and written. */
export class TreeRecords<R extends VolumeRecord | SnapshotRecord> {
  readonly #space: OperationContext;
  readonly #sort: TreeKind;
  readonly #read: Read<R>;

  constructor(space: OperationContext, sort: TreeKind, read: Read<R>) {
    this.#space = space;
    this.#sort = sort;
    this.#read = read;
  }

  /** Undefined when there is none, or none that can be read. */
  async read(key: string): Promise<R | undefined> {
    const content = await this.#space.files.readText(this.#path(key));
    return content === undefined ? undefined : lastOf(content, this.#read);
  }

  /** Writes a new record; false when there is one already. On stable storage when it resolves. */
  async start(key: string, record: R): Promise<boolean> {
    try {
      await this.#write(key, line(record), "create");
      return true;
    } catch (error) {
      if (errnoOf(error) === "EEXIST") return false;
      throw error;
    }
  }

  /** Puts this record in the place of whatever was there. */
  async replace(key: string, record: R): Promise<void> {
    await this.#write(key, line(record), "replace");
  }

  /**
   * Changes a record of a tree in use: appends a line, of which the last readable one counts, so that an interruption
   * leaves the old record or the new one.
   */
  async amend(key: string, record: R): Promise<void> {
    await this.#write(key, `\n${line(record)}`, "append");
  }

  #path(key: string): string {
    return this.#space.layout.record(this.#sort, key);
  }

  #write(key: string, text: string, how: "create" | "replace" | "append"): Promise<boolean> {
    const { files, layout } = this.#space;
    return withFolders(this.#space, [layout.own], () => files.writeText(this.#path(key), text, how));
  }
}

export const volumeRecords = (space: OperationContext): TreeRecords<VolumeRecord> =>
  new TreeRecords(space, "v", volumeRecord);

export const snapshotRecords = (space: OperationContext): TreeRecords<SnapshotRecord> =>
  new TreeRecords(space, "s", snapshotRecord);

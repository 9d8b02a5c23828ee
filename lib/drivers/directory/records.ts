import { randomBytes } from "node:crypto";
import { type CsiError, errnoOf } from "../../core/errors.ts";
import { isMapping, type Mapping, mappingIn } from "../../core/mapping.ts";
import type { Source } from "../driver.ts";
import type { ForeignSource } from "../volume.ts";
import type { TreeKind } from "./layout.ts";
import { errorOn, type OperationContext, withFolders } from "./operation-context.ts";

interface TreeRecord {
  /** The requested size of the volume in bytes; 0 if unknown. */
  readonly bytes: bigint;
  readonly created: Date;
  readonly connection: string;
}

/** The data of a volume besides its tree. */
export interface VolumeRecord extends TreeRecord {
  /** The name chosen by the caller; undefined for a volume that csimux did not create. */
  readonly name: string | undefined;
  readonly source: Source | undefined;
  /** The source on another connection, if the content came from there. */
  readonly copyOf?: ForeignSource | undefined;
}

/** The data of a snapshot besides its tree. */
export interface SnapshotRecord extends TreeRecord {
  readonly name: string;
  readonly volumeId: string;
}

/** Whether a record is that of a tree whose name has other capitals: where they do not count, as over SMB, each of the keys leads to it. */
export const isOfOther = (key: string, record: { readonly name: string | undefined } | undefined): boolean =>
  record?.name !== undefined && record.name !== key && record.name.toLowerCase() === key.toLowerCase();

/** The refusal of a volume of this name while there is one for which `isOfOther` holds. */
export const otherCapitals = (context: OperationContext, name: string): CsiError =>
  errorOn(context, "already-exists", `a volume whose name differs from "${name}" only in capitals exists`);

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** A size in bytes as csimux has written it; undefined for anything else. */
export function size(value: unknown): bigint | undefined {
  return typeof value === "string" && /^\d{1,19}$/.test(value) ? BigInt(value) : undefined;
}

/** A time as a text; undefined for anything else. */
export function date(value: unknown): Date | undefined {
  const parsed = new Date(text(value) ?? "");
  return Number.isNaN(parsed.getTime()) ? undefined : parsed;
}

/** A source on another connection, as records have it; undefined for anything else. */
export function foreignSource(value: unknown): ForeignSource | undefined {
  if (!isMapping(value)) return undefined;
  const handle = text(value["handle"]);
  const kind = value["kind"];
  return handle !== undefined && (kind === "volume" || kind === "snapshot") ? { kind, handle } : undefined;
}

/** A source on this connection, as records have it; undefined for anything else. */
export function ownSource(value: unknown): Source | undefined {
  if (!isMapping(value)) return undefined;
  const id = text(value["id"]);
  const kind = value["kind"];
  return id !== undefined && (kind === "volume" || kind === "snapshot") ? { kind, id } : undefined;
}

function treeRecord(fields: Mapping): TreeRecord | undefined {
  const bytes = size(fields["bytes"]);
  const created = date(fields["created"]);
  const connection = text(fields["connection"]);
  return bytes === undefined || !created || connection === undefined ? undefined : { bytes, created, connection };
}

function copied(fields: Mapping): Pick<VolumeRecord, "copyOf"> {
  const copyOf = foreignSource(fields["copyOf"]);
  return copyOf ? { copyOf } : {};
}

function volumeRecord(fields: Mapping): VolumeRecord | undefined {
  const common = treeRecord(fields);
  return common && { ...common, name: text(fields["name"]), source: ownSource(fields["source"]), ...copied(fields) };
}

function snapshotRecord(fields: Mapping): SnapshotRecord | undefined {
  const common = treeRecord(fields);
  const name = text(fields["name"]);
  const volumeId = text(fields["volumeId"]);
  return common && name !== undefined && volumeId !== undefined ? { ...common, name, volumeId } : undefined;
}

/** The last valid record, with the largest size of all: a volume never shrinks, and two controllers may expand it at once. */
function recordOf<R extends TreeRecord>(content: string, read: (fields: Mapping) => R | undefined): R | undefined {
  let found: R | undefined;
  for (const line of content.split("\n")) {
    // An interrupted append leaves half a line; the others are still valid.
    const fields = mappingIn(line);
    const record = fields && read(fields);
    if (record) found = found && found.bytes > record.bytes ? { ...record, bytes: found.bytes } : record;
  }
  return found;
}

const line = (record: VolumeRecord | SnapshotRecord, creation?: string): string =>
  `${JSON.stringify({ ...record, bytes: record.bytes.toString(), creation })}\n`;

/** The records of one kind of tree. */
export class TreeRecords<R extends VolumeRecord | SnapshotRecord> {
  readonly #context: OperationContext;
  readonly #kind: TreeKind;
  readonly #read: (fields: Mapping) => R | undefined;

  constructor(context: OperationContext, kind: TreeKind, read: (fields: Mapping) => R | undefined) {
    this.#context = context;
    this.#kind = kind;
    this.#read = read;
  }

  /** Undefined if there is none, or none that is valid. */
  async read(key: string): Promise<R | undefined> {
    const content = await this.#context.files.readText(this.#path(key));
    return content === undefined ? undefined : recordOf(content, this.#read);
  }

  /** Writes a new record, and returns its text, which no other record has; undefined if one exists. On stable storage when it resolves. */
  async start(key: string, record: R): Promise<string | undefined> {
    const text = line(record, randomBytes(6).toString("hex"));
    try {
      await this.#write(key, text, "create");
      return text;
    } catch (error) {
      if (errnoOf(error) === "EEXIST") return undefined;
      throw error;
    }
  }

  /** Whether the record is the one that `start` has written. */
  async isStill(key: string, text: string): Promise<boolean> {
    return (await this.#context.files.readText(this.#path(key))) === text;
  }

  /**
   * Changes the record of an existing tree, except to a smaller size: appends a line, of which the last valid one counts, so that
   * an interruption leaves the old record or the new one.
   */
  async amend(key: string, record: R): Promise<void> {
    await this.#write(key, `\n${line(record)}`, "append");
  }

  #path(key: string): string {
    return this.#context.layout.record(this.#kind, key);
  }

  #write(key: string, text: string, how: "create" | "append"): Promise<boolean> {
    const { files, layout } = this.#context;
    return withFolders(this.#context, [layout.own], () => files.writeText(this.#path(key), text, how));
  }
}

export const volumeRecords = (context: OperationContext): TreeRecords<VolumeRecord> =>
  new TreeRecords(context, "v", volumeRecord);

export const snapshotRecords = (context: OperationContext): TreeRecords<SnapshotRecord> =>
  new TreeRecords(context, "s", snapshotRecord);

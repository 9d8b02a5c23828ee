import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { maxRecordBytes, type StoredCopy } from "../../copying.ts";
import { isVolumeId } from "../names.ts";
import { markProperties, otherOwner, ownValue, property, shownValue } from "../properties.ts";
import type { ZfsStorage } from "../storage.ts";
import type { Entry } from "../zfs.ts";

/** What is read of the record of a copy. */
export const recordProperties = ["type", property.copy, property.cancelled, ...markProperties] as const;

const targetProperties = [
  ...["type", "encryption", "receive_resume_token", property.copyTarget, property.proof],
  ...[property.copyOf, property.success, ...markProperties],
] as const;

/** The datasets of a copy that exist: its record, the target that receives the content, and the volume that this becomes. */
export type FoundCopy = Readonly<Record<"record" | "target" | "volume", Entry | undefined>>;

/** The text of a record as a property. Throws "invalid-argument" for one that is too long. */
export function recordText(record: string): string {
  if (Buffer.byteLength(record) <= maxRecordBytes) return Buffer.from(record).toString("base64url");
  throw new CsiError("invalid-argument", `the record of a copy must be at most ${maxRecordBytes} bytes long`);
}

/** The record in such a property; text that csimux did not write is returned as it is, because nothing may be lost. */
function recordIn(text: string): string {
  const record = Buffer.from(text, "base64url");
  return record.toString("base64url") === text ? record.toString() : text;
}

/** The datasets of copies into a storage, and whose they are. */
export class CopyDatasets {
  readonly #storage: ZfsStorage;

  constructor(storage: ZfsStorage) {
    this.#storage = storage;
  }

  async read(id: string, { signal }: Call): Promise<FoundCopy> {
    const { zfs, names } = this.#storage;
    const [record, target, volume] = [names.record(id), names.copyTarget(id), names.dataset(id)];
    const properties = [...new Set([...recordProperties, ...targetProperties])];
    const entries = await zfs.read({ names: [names.pool, record, target, volume], properties }, signal);
    return { record: entries.get(record), target: entries.get(target), volume: entries.get(volume) };
  }

  /** Whether this connection has made a dataset: only then are the marks of its maker set on it. */
  isOwn(entry: Entry): boolean {
    return (
      ownValue(entry, property.driver) !== undefined && otherOwner(entry, this.#storage.settings.marks) === undefined
    );
  }

  /** The record in a dataset; undefined if it is not one of this connection. */
  recordOf(entry: Entry | undefined): StoredCopy | undefined {
    const id = entry && this.#storage.names.recordOf(entry.name);
    const text = ownValue(entry, property.copy);
    if (!entry || id === undefined || text === undefined || !this.isOwn(entry)) return undefined;
    return { id, record: recordIn(text), ...(ownValue(entry, property.cancelled) && { isCancelled: true }) };
  }

  async find(id: string, call: Call): Promise<StoredCopy | undefined> {
    if (!isVolumeId(id)) return undefined;
    return this.recordOf((await this.read(id, call)).record);
  }

  /** The target itself, if there is one. Throws "failed-precondition" unless it is this connection's, with its record. */
  targetIn(id: string, { record, target }: FoundCopy): Entry | undefined {
    const isProved = () => target && this.isOwn(target) && ownValue(target, property.copyTarget) === id;
    if (target && !(this.recordOf(record) && isProved())) throw this.foreign(target.name, "the target of a copy");
    return target;
  }

  /** As `targetIn`, of what exists now. */
  async targetOf(id: string, call: Call): Promise<Entry | undefined> {
    return this.targetIn(id, await this.read(id, call));
  }

  /**
   * The token of a target that has no mark yet. ZFS sets the properties of a dataset after it has begun to receive it
   * (module/zfs/zfs_ioctl.c, zfs_ioc_recv_impl), and a loss of power in between leaves one; the stream that continues it sets them again.
   */
  unmarkedToken({ record, target }: FoundCopy): string | undefined {
    if (!target || !this.recordOf(record)) return undefined;
    const marks = [...markProperties, property.copyTarget, property.proof];
    return marks.every(name => ownValue(target, name) === undefined)
      ? shownValue(target, "receive_resume_token")
      : undefined;
  }

  /** The error for a copy without a record. */
  gone(id: string): CsiError {
    return this.#storage.error("not-found", `the copy of "${id.slice(0, 128)}" does not exist`);
  }

  /** The error for a dataset with the name of a copy's that another one has made. */
  foreign(name: string, what: string): CsiError {
    return this.#storage.notOwn(`the dataset ${name} exists, and nothing proves that it is ${what} of this connection`);
  }
}

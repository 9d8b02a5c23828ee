import { CsiError } from "../../core/errors.ts";
import { fileFailure } from "../mount/files.ts";
import { RecordFolder } from "../state/record-folder.ts";

/** A making of a file system that was begun on this node and is not known to be finished. */
export interface UnfinishedFormat {
  readonly volumeId: string;
  /** From the table of file systems. */
  readonly type: string;
  /** Given to the tool. */
  readonly uuid: string;
  /** The disk as it was then. */
  readonly identity: string;
  readonly bytes: string;
}

/**
 * Records of formats that are not known to be finished, on disk before the first byte of the volume changes. They outlive
 * unstaging: only by its record can a half-made file system be proved to be csimux's own.
 */
export class UnfinishedFormats {
  readonly #folder: RecordFolder;

  /** `folder` is made when it is missing. */
  constructor(folder: string) {
    this.#folder = new RecordFolder(folder);
  }

  /** Undefined when no format of this volume is unfinished, and for an unreadable file, which proves nothing. */
  async find(volumeId: string): Promise<UnfinishedFormat | undefined> {
    const text = await this.#folder.read(volumeId).catch((cause: unknown) => {
      throw new CsiError("unavailable", `the record of formatting volume "${volumeId}" cannot be read`, { cause });
    });
    const found = text === undefined ? undefined : parsed(text);
    return found?.volumeId === volumeId ? found : undefined;
  }

  /** Is on disk when it resolves. Throws as fileFailure. */
  async begin(format: UnfinishedFormat): Promise<void> {
    await this.#folder.write(format.volumeId, JSON.stringify(format), true).catch((cause: unknown) => {
      throw fileFailure(cause, `writing the record of formatting volume "${format.volumeId}"`);
    });
  }

  /** Success when there is none. */
  async end(volumeId: string): Promise<void> {
    await this.#folder.remove(volumeId).catch((cause: unknown) => {
      throw fileFailure(cause, `removing the record of formatting volume "${volumeId}"`);
    });
  }
}

const keys = ["volumeId", "type", "uuid", "identity", "bytes"] as const;

function parsed(text: string): UnfinishedFormat | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isBegun(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isBegun(value: unknown): value is UnfinishedFormat {
  if (typeof value !== "object" || value === null) return false;
  const fields = new Map(Object.entries(value));
  return keys.every(key => typeof fields.get(key) === "string");
}

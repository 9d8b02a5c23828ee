import { CsiError } from "../../core/errors.ts";
import { fileFailure } from "../mount/files.ts";
import { RecordFolder } from "../state/record-folder.ts";

/** A format that was started on this node and may not have finished. */
export interface UnfinishedFormat {
  readonly volumeId: string;
  /** From the table of file systems. */
  readonly type: string;
  /** The UUID passed to the tool. */
  readonly uuid: string;
  /** The identity and the size of the disk when the format started. */
  readonly identity: string;
  readonly bytes: string;
}

/**
 * Records of formats that may not have finished, on disk before the first byte of the volume changes. They outlive
 * unstaging: only the record proves that a half-made file system is csimux's own.
 */
export class UnfinishedFormats {
  readonly #folder: RecordFolder;

  /** Creates `folder` if it is missing. */
  constructor(folder: string) {
    this.#folder = new RecordFolder(folder);
  }

  /**
   * The unfinished format of a volume. Undefined if there is none, and for an unreadable file, which proves nothing.
   */
  async find(volumeId: string): Promise<UnfinishedFormat | undefined> {
    const text = await this.#folder.read(volumeId).catch((cause: unknown) => {
      throw new CsiError("unavailable", `the format record of volume "${volumeId}" cannot be read; retrying`, {
        cause,
      });
    });
    const found = text === undefined ? undefined : parsed(text);
    return found?.volumeId === volumeId ? found : undefined;
  }

  /** Resolves once the record is on disk. Throws as fileFailure does. */
  async begin(format: UnfinishedFormat): Promise<void> {
    await this.#folder.write(format.volumeId, JSON.stringify(format), true).catch((cause: unknown) => {
      throw fileFailure(cause, `writing the format record of volume "${format.volumeId}"`);
    });
  }

  /** Removes the record; succeeds if there is none. */
  async end(volumeId: string): Promise<void> {
    await this.#folder.remove(volumeId).catch((cause: unknown) => {
      throw fileFailure(cause, `removing the format record of volume "${volumeId}"`);
    });
  }
}

const keys = ["volumeId", "type", "uuid", "identity", "bytes"] as const;

function parsed(text: string): UnfinishedFormat | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isUnfinishedFormat(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isUnfinishedFormat(value: unknown): value is UnfinishedFormat {
  if (typeof value !== "object" || value === null) return false;
  const fields = new Map(Object.entries(value));
  return keys.every(key => typeof fields.get(key) === "string");
}

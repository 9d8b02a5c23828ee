import { createHash } from "node:crypto";
import { mkdir, open, readFile, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import { fileFailure } from "../mount/files.ts";

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
 * What is kept about unfinished makings: one small file for each, forced to disk before the first byte of the volume changes.
 * It outlives unstaging, because a half-made file system can be proven to be csimux's own by it alone.
 */
export class UnfinishedFormats {
  readonly #folder: string;

  /** `folder` is made when it is missing. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Undefined when no making of this volume is unfinished, and for an unreadable file, which proves nothing. */
  async find(volumeId: string): Promise<UnfinishedFormat | undefined> {
    const text = await readFile(this.#file(volumeId), "utf8").catch((cause: unknown) => {
      if (errnoOf(cause) === "ENOENT") return undefined;
      throw new CsiError("unavailable", `the record of making volume "${volumeId}" cannot be read`, { cause });
    });
    const begun = text === undefined ? undefined : parsed(text);
    return begun?.volumeId === volumeId ? begun : undefined;
  }

  /** Is on disk when it resolves. Throws as fileFailure. */
  async begin(begun: UnfinishedFormat): Promise<void> {
    const file = this.#file(begun.volumeId);
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await write(`${file}.new`, JSON.stringify(begun));
      await rename(`${file}.new`, file);
      await sync(this.#folder);
    } catch (cause) {
      throw fileFailure(cause, `writing the record of making volume "${begun.volumeId}"`);
    }
  }

  /** Success when there is none. */
  async end(volumeId: string): Promise<void> {
    await unlink(this.#file(volumeId)).catch((cause: unknown) => {
      if (errnoOf(cause) !== "ENOENT") throw fileFailure(cause, `removing the record of making volume "${volumeId}"`);
    });
  }

  #file(volumeId: string): string {
    return join(this.#folder, `${createHash("sha256").update(volumeId).digest("hex")}.json`);
  }
}

async function write(file: string, text: string): Promise<void> {
  const handle = await open(file, "w", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Has a rename in the folder on disk (fsync(2)). */
async function sync(folder: string): Promise<void> {
  const handle = await open(folder);
  await handle.sync().finally(() => handle.close());
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

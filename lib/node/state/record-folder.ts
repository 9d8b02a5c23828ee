import { createHash } from "node:crypto";
import { access, lstat, mkdir, open, readdir, readFile, rename, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../../core/errors.ts";
import { fileFailure } from "../mount/files.ts";

const ending = ".json";

/**
 * A folder with one small file per key. Each file is written under another name and renamed, so a reader sees either
 * the old or the new text. All methods reject with errno errors.
 */
export class RecordFolder {
  readonly #folder: string;

  /** Creates `folder`, readable by root only, if it is missing. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** The path of a key's file. */
  file(key: string): string {
    return join(this.#folder, `${createHash("sha256").update(key).digest("hex")}${ending}`);
  }

  /** The text of a key; undefined if there is none. */
  async read(key: string): Promise<string | undefined> {
    return await textOf(this.file(key)).catch((cause: unknown) => {
      if (errnoOf(cause) === "ENOENT") return undefined;
      throw cause;
    });
  }

  /** The readable texts of all keys. */
  async all(): Promise<readonly string[]> {
    const files = await readdir(this.#folder).catch(() => []);
    const read = (file: string) => textOf(join(this.#folder, file)).catch(() => "");
    return await Promise.all(files.filter(file => file.endsWith(ending)).map(read));
  }

  /** Writes the text of a key. If `lasting`, it survives a crash of the machine once this resolves (fsync(2)). */
  async write(key: string, text: string, lasting: boolean): Promise<void> {
    const file = this.file(key);
    const options = { mode: 0o600, flush: lasting };
    await writeFile(`${file}.new`, text, options).catch(async (cause: unknown) => {
      if (errnoOf(cause) !== "ENOENT") throw cause;
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await writeFile(`${file}.new`, text, options);
    });
    await rename(`${file}.new`, file);
    if (lasting) await syncFolder(this.#folder);
  }

  /** Removes a key, also the remains of an interrupted or failed `write`; succeeds if there is none. */
  async remove(key: string): Promise<void> {
    const file = this.file(key);
    await unlink(`${file}.new`).catch(() => {});
    await unlink(file).catch(async (cause: unknown) => {
      // A read-only file system reports EROFS even for a missing file.
      if (errnoOf(cause) !== "ENOENT" && !(errnoOf(cause) === "EROFS" && !(await exists(file)))) throw cause;
    });
  }
}

/** The text of a file; empty for anything but a regular file, because reading a pipe would block forever. */
const textOf = async (file: string): Promise<string> =>
  (await lstat(file)).isFile() ? await readFile(file, "utf8") : "";

/** Makes a rename in the folder durable (fsync(2)). */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder);
  await handle.sync().finally(() => handle.close());
}

const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );

/**
 * Records the sessions with storage that csimux itself opened, one small file for each, by names that the caller
 * chooses. A session belongs to no single volume, because it can outlive them. Records from before the last boot do not
 * count: their sessions are gone, and the host may have opened its own since.
 */
export class OpenedSessions {
  readonly #folder: RecordFolder;
  readonly #boot: string;

  /** Creates `folder` if it is missing. `boot` is the path of the kernel's boot id, /proc/sys/kernel/random/boot_id. */
  constructor(folder: string, boot: string) {
    this.#folder = new RecordFolder(folder);
    this.#boot = boot;
  }

  /** Records that a session is about to be opened. Throws as fileFailure does. */
  async add(name: string): Promise<void> {
    const write = async () => this.#folder.write(name, await this.#text(name), false);
    await write().catch((cause: unknown) => {
      throw fileFailure(cause, `recording that ${name} is opened`);
    });
  }

  /** "now" if csimux opened it since the last boot, "before" if earlier, undefined if csimux did not open it. */
  async has(name: string): Promise<"now" | "before" | undefined> {
    const text = await this.#folder.read(name).catch(() => undefined);
    if (!text) return undefined;
    return text === (await this.#text(name)) ? "now" : "before";
  }

  /** Removes the record; succeeds if there is none. */
  async remove(name: string): Promise<void> {
    await this.#folder.remove(name).catch((cause: unknown) => {
      throw fileFailure(cause, `recording that ${name} is closed`);
    });
  }

  async #text(name: string): Promise<string> {
    return JSON.stringify({ name, boot: (await readFile(this.#boot, "utf8")).trim() });
  }
}

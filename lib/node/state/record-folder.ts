import { createHash } from "node:crypto";
import { access, lstat, mkdir, open, readdir, readFile, rename, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../../core/errno.ts";

const ending = ".json";

/**
 * One small file for each key in a folder that survives restarts. Written to a second name and renamed, so that a reader sees the
 * old or the new text, never half of one. All methods reject with errno errors.
 */
export class RecordFolder {
  readonly #folder: string;

  /** `folder` is made when it is missing, readable by root alone. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** The path of the file of a key. */
  file(key: string): string {
    return join(this.#folder, `${createHash("sha256").update(key).digest("hex")}${ending}`);
  }

  /** The text of a key; undefined when there is none. */
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

  /** `lasting`: it survives a crash of the machine once this resolves (fsync(2)). */
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

  /** Success when there is none. What an interrupted or failed `write` left goes as well. */
  async remove(key: string): Promise<void> {
    const file = this.file(key);
    await unlink(`${file}.new`).catch(() => {});
    await unlink(file).catch(async (cause: unknown) => {
      // A read-only file system is reported before a missing file.
      if (errnoOf(cause) !== "ENOENT" && !(errnoOf(cause) === "EROFS" && !(await exists(file)))) throw cause;
    });
  }
}

/** The text of a file; empty for anything but a regular file: a pipe would make its reader wait forever. */
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

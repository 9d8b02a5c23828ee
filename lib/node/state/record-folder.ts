import { createHash } from "node:crypto";
import { access, lstat, mkdir, open, readdir, readFile, rename, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CsiError, errnoOf } from "../../core/errors.ts";
import { isMapping } from "../../core/mapping.ts";
import { fileFailure, unlessExhausted } from "../mount/files.ts";

const ending = ".json";

/**
 * A folder with one small JSON file per key, readable by root only and created when needed. A file is written under
 * another name and renamed, so a reader sees either the old or the new record. Methods throw as fileFailure does.
 */
export class RecordFolder<T> {
  readonly #folder: string;
  readonly #what: string;
  readonly #parse: (value: unknown) => T | undefined;

  /** `what` names a record before its key in messages; `parse` returns undefined for a value that is not a record. */
  constructor(folder: string, what: string, parse: (value: unknown) => T | undefined) {
    this.#folder = folder;
    this.#what = what;
    this.#parse = parse;
  }

  /** The path of a key's file. */
  file(key: string): string {
    return join(this.#folder, `${createHash("sha256").update(key).digest("hex")}${ending}`);
  }

  /** The record of a key, undefined in it if unreadable; undefined if there is none. Throws "unavailable". */
  async read(key: string): Promise<{ readonly record: T | undefined } | undefined> {
    try {
      return { record: this.#parsed(await textOf(this.file(key))) };
    } catch (cause) {
      if (errnoOf(cause) === "ENOENT") return undefined;
      throw new CsiError("unavailable", `${this.#what} "${key}" cannot be read; retrying`, { cause });
    }
  }

  /** The readable records of all keys; none if the folder cannot be read. */
  async all(): Promise<readonly T[]> {
    return await this.seen().catch(() => []);
  }

  /** Like `all`, but throws "unavailable" if this process can read nothing. */
  async seen(): Promise<readonly T[]> {
    const files: readonly string[] = await readdir(this.#folder).catch(unlessExhausted([]));
    const read = async (file: string) =>
      this.#parsed(await textOf(join(this.#folder, file)).catch(unlessExhausted("")));
    const records = await Promise.all(files.filter(file => file.endsWith(ending)).map(read));
    return records.filter(record => record !== undefined);
  }

  /** The records of all keys; undefined if one of them cannot be read, so that the others are not taken for all. */
  async complete(): Promise<readonly T[] | undefined> {
    try {
      const files = (await readdir(this.#folder).catch(emptyIfAbsent)).filter(file => file.endsWith(ending));
      const texts = await Promise.all(files.map(file => textOf(join(this.#folder, file)).catch(undefinedIfAbsent)));
      // A record that was removed meanwhile is not one that is unreadable.
      const records = texts.filter(text => text !== undefined).map(text => this.#parsed(text));
      return records.every(record => record !== undefined) ? records : undefined;
    } catch {
      return undefined;
    }
  }

  /** Writes the record of a key. If `lasting`, it survives a crash of the machine once this resolves (fsync(2)). */
  async write(key: string, record: T, lasting: boolean): Promise<void> {
    const file = this.file(key);
    const write = () => writeFile(`${file}.new`, JSON.stringify(record), { mode: 0o600, flush: lasting });
    try {
      await write().catch(async (cause: unknown) => {
        if (errnoOf(cause) !== "ENOENT") throw cause;
        await mkdir(this.#folder, { recursive: true, mode: 0o700 });
        await write();
      });
      await rename(`${file}.new`, file);
      if (lasting) await syncFolder(this.#folder);
    } catch (cause) {
      throw fileFailure(cause, `writing ${this.#what} "${key}" to ${file}`);
    }
  }

  /** Removes a record, also the remains of an interrupted or failed `write`; succeeds if there is none. */
  async remove(key: string): Promise<void> {
    const file = this.file(key);
    await unlink(`${file}.new`).catch(() => {});
    await unlink(file).catch(async (cause: unknown) => {
      // A read-only file system reports EROFS even for a missing file.
      if (errnoOf(cause) === "ENOENT" || (errnoOf(cause) === "EROFS" && !(await exists(file)))) return;
      throw fileFailure(cause, `removing ${this.#what} "${key}"`);
    });
  }

  #parsed(text: string): T | undefined {
    try {
      return this.#parse(JSON.parse(text));
    } catch {
      return undefined;
    }
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

/** Whether a value is an object of which these keys hold texts. */
export const hasTexts = <K extends string, V>(value: V, keys: readonly K[]): value is V & Readonly<Record<K, string>> =>
  isMapping(value) && keys.every(key => typeof value[key] === "string");

interface OpenedSession {
  readonly name: string;
  readonly boot: string;
  /** Where it was opened, for storage that is reached by a name. */
  readonly addresses?: readonly string[];
}

/**
 * The sessions with storage that csimux itself opened, by names that the caller chooses. They belong to no single
 * volume, because they can outlive it. Records from before the last boot do not count: their sessions are gone, and the
 * host may have opened its own since.
 */
export class OpenedSessions {
  readonly #records: RecordFolder<OpenedSession>;
  readonly #boot: string;

  /** `opened` is the folder of the records, `proc` is /proc outside tests. */
  constructor({ opened, proc }: { readonly opened: string; readonly proc: string }) {
    this.#records = new RecordFolder(opened, "the record of session", openedIn);
    this.#boot = join(proc, "sys/kernel/random/boot_id");
  }

  /** Records that a session is about to be opened, and at which address next to earlier ones. Throws as fileFailure does. */
  async add(name: string, address?: string): Promise<void> {
    const own = address === undefined ? [] : [address];
    const addresses = [...new Set([...(await this.addresses(name)), ...own])];
    await this.#records.write(name, { name, boot: await this.bootId(), addresses }, false);
  }

  /** The addresses at which csimux opened it since the last boot. */
  async addresses(name: string): Promise<readonly string[]> {
    const found = (await this.#records.read(name).catch(unlessExhausted(undefined)))?.record;
    return found?.name === name && found.boot === (await this.bootId()) ? (found.addresses ?? []) : [];
  }

  /** "now" if csimux opened it since the last boot, "before" if earlier, undefined if csimux did not open it. */
  async has(name: string): Promise<"now" | "before" | undefined> {
    const found = await this.#records.read(name).catch(unlessExhausted(undefined));
    if (!found) return undefined;
    return found.record?.name === name && found.record.boot === (await this.bootId()) ? "now" : "before";
  }

  /** Removes the record; succeeds if there is none. */
  async remove(name: string): Promise<void> {
    await this.#records.remove(name);
  }

  /** The id that the kernel gave to this boot (random(4)). Throws as fileFailure does. */
  async bootId(): Promise<string> {
    try {
      return (await readFile(this.#boot, "utf8")).trim();
    } catch (cause) {
      throw fileFailure(cause, `reading ${this.#boot}`);
    }
  }
}

function openedIn(value: unknown): OpenedSession | undefined {
  if (!isMapping(value) || !hasTexts(value, ["name", "boot"])) return undefined;
  const { name, boot } = value;
  const addresses: readonly unknown[] = Array.isArray(value["addresses"]) ? value["addresses"] : [];
  return { name, boot, addresses: addresses.filter(each => typeof each === "string") };
}

function emptyIfAbsent(cause: unknown): readonly string[] {
  if (errnoOf(cause) === "ENOENT") return [];
  throw cause;
}

function undefinedIfAbsent(cause: unknown): undefined {
  if (errnoOf(cause) !== "ENOENT") throw cause;
}

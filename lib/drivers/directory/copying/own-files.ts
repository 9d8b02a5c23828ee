import { randomBytes } from "node:crypto";
import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { type Mapping, mappingIn } from "../../../core/mapping.ts";
import { unless } from "../../../io/files.ts";
import { maxRecordBytes } from "../../copying.ts";
import { errorOn, type OperationContext, withFolders } from "../operation-context.ts";

const ending = ".json";

/** The longest file: a record of a copy is much shorter, and csimux must not read whatever others put there. */
const mostBytes = 256 << 10;

/** How often a file is read that exists and then is absent: another process may just have removed it. A link to nothing stays so. */
const reads = 3;

/** The version of the files of this folder. A csimux that changes their format must raise it; older ones then leave the files unchanged. */
const version = 1;

/**
 * The JSON files of one folder of csimux. A change replaces a file atomically and is on stable storage when it resolves. Files that cannot
 * be read are never changed or removed.
 */
export class OwnFiles<T> {
  readonly #context: OperationContext;
  readonly #folder: string;
  readonly #read: (fields: Mapping) => T | undefined;

  /** `read` returns undefined for fields that are not a `T`. */
  constructor(context: OperationContext, folder: string, read: (fields: Mapping) => T | undefined) {
    this.#context = context;
    this.#folder = folder;
    this.#read = read;
  }

  /** The names of all files, without their ending. */
  async names(): Promise<readonly string[]> {
    const names = (await unless(this.#context.files.names(this.#folder), "ENOENT")) ?? [];
    return names
      .filter(name => name.endsWith(ending) && !name.includes("~"))
      .map(name => name.slice(0, -ending.length));
  }

  /** The files with these names. If one cannot be read, its value is undefined and a warning is logged. */
  async all(
    isWanted: (name: string) => boolean,
    call: Call,
  ): Promise<readonly { readonly name: string; readonly value: T | undefined }[]> {
    const all: { readonly name: string; readonly value: T | undefined }[] = [];
    for (const name of (await this.names()).filter(isWanted)) {
      try {
        const value = await this.read(name);
        if (value !== undefined) all.push({ name, value });
      } catch (cause) {
        if (!(cause instanceof CsiError)) throw cause;
        call.log.warn("the record of a copy cannot be read", { file: `${this.#folder}/${name}${ending}`, cause });
        all.push({ name, value: undefined });
      }
    }
    return all;
  }

  /** Whether there is anything with this name, readable or not. */
  async has(name: string): Promise<boolean> {
    return (await this.#context.files.entry(this.#path(name))) !== undefined;
  }

  /** Undefined if there is no such file. Throws "failed-precondition" for one that this csimux cannot read. */
  async read(name: string): Promise<T | undefined> {
    const path = this.#path(name);
    for (let left = reads; left > 0; left--) {
      // First, because most volumes have no such file, and to check that costs less than to try to open it.
      if (!(await this.has(name))) return undefined;
      const text = await unless(this.#context.files.readText(path, mostBytes), "EISDIR", "ELOOP", "EFBIG");
      const value = text === undefined ? undefined : this.#parsed(text);
      if (value !== undefined) return value;
      if (text !== undefined) break;
    }
    const what = `${path} is damaged or from another version of csimux, and is left unchanged; restore it, or remove it if no copy needs it`;
    throw errorOn(this.#context, "failed-precondition", what);
  }

  /** Writes a file, or replaces the one that exists. */
  async put(name: string, value: T): Promise<void> {
    const { files, layout } = this.#context;
    const beside = `${this.#folder}/${name}~${randomBytes(6).toString("hex")}`;
    const text = `${JSON.stringify({ version, ...value })}\n`;
    const isNew = await withFolders(this.#context, [layout.own, this.#folder], () =>
      files.writeText(beside, text, "create"),
    );
    await files.rename(beside, this.#path(name));
    await files.sync(this.#folder);
    if (isNew) await Promise.all([files.sync(layout.own), files.sync(layout.base)]);
  }

  /** Marks a file until `drop`; on stable storage when it resolves. The mark is a file of its own, which `put` does not replace. */
  async mark(name: string): Promise<void> {
    const { files } = this.#context;
    await unless(files.writeText(this.#mark(name), "", "create"), "EEXIST");
    await files.sync(this.#folder);
  }

  async isMarked(name: string): Promise<boolean> {
    return (await this.#context.files.entry(this.#mark(name))) !== undefined;
  }

  /** Removes the mark of a file that does not exist. */
  async unmark(name: string): Promise<void> {
    await unless(this.#context.files.removeFile(this.#mark(name)), "ENOENT");
  }

  /** Removes a file, its mark, and the temporary files of interrupted calls. Throws like `read`, and then leaves the file unchanged. */
  async drop(name: string): Promise<void> {
    const { files } = this.#context;
    if ((await this.read(name)) === undefined) return;
    const left = (await unless(files.names(this.#folder), "ENOENT")) ?? [];
    for (const other of left.filter(each => each.startsWith(`${name}~`)))
      await unless(files.removeFile(`${this.#folder}/${other}`), "ENOENT");
    await unless(files.removeFile(this.#path(name)), "ENOENT");
    await files.sync(this.#folder);
  }

  /** Named like a temporary file: `drop` removes it, also that of an older csimux. */
  #mark(name: string): string {
    return `${this.#folder}/${name}~marked`;
  }

  #path(name: string): string {
    return `${this.#folder}/${name}${ending}`;
  }

  #parsed(text: string): T | undefined {
    const fields = mappingIn(text);
    return fields?.["version"] === version ? this.#read(fields) : undefined;
  }
}

/** The text of a record. Throws "internal" if it is longer than any record. */
export function short(record: string): string {
  if (Buffer.byteLength(record) <= maxRecordBytes) return record;
  throw new CsiError("internal", `the record of a copy has more than ${maxRecordBytes} bytes; report this`);
}

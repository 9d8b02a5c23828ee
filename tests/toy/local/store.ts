import type { Call } from "../../../lib/core/call.ts";
import { type Code, CsiError } from "../../../lib/core/errors.ts";
import { backendName } from "../../../lib/core/name.ts";
import type { Context, Page, PageRequest, VolumeSpec } from "../../../lib/drivers/driver.ts";
import { afterFailure, type ErrorMapping, type FailureContext, unfinished } from "../../../lib/drivers/failure.ts";
import { explain, toolFailure } from "../../../lib/drivers/file-failures.ts";
import type { ConnectionIdentity } from "../../../lib/drivers/module.ts";
import { pageOf } from "../../../lib/drivers/pages.ts";
import { sizeFrom } from "../../../lib/drivers/sizes.ts";
import type { Notes, StoredVolume, VolumeStore } from "../../../lib/drivers/store.ts";
import { type Files, unless } from "../../../lib/io/files.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";

const isId = (text: string): boolean => /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/.test(text);

/** The time limit for the removal of a folder, in milliseconds. */
const removalMs = 60 * 60_000;

/** The content of `volume.json`; the size in bytes is text, because a JSON number may be rounded. */
interface Fields {
  readonly name: string;
  readonly bytes: string;
  readonly notes: Notes;
  readonly finished: boolean;
}

/**
 * Volumes as folders `<base>/<id>`, each with `data`, which pods see, and `volume.json`, which proves that csimux made it. A volume is
 * built in `.new-<id>` and removed in `.old-<id>`, so that a folder with the name of a volume always has both; `finished` in the record says
 * whether it is shared, too.
 */
export class ToyLocalStore implements VolumeStore<StoredVolume>, FailureContext {
  readonly connection: string;
  readonly #maxIdBytes: number;
  readonly #base: string;
  readonly #files: Files;
  readonly #runner: CommandRunner;

  constructor({ connection, maxIdBytes }: ConnectionIdentity, base: string, files: Files, runner: CommandRunner) {
    this.connection = connection;
    this.#maxIdBytes = maxIdBytes;
    this.#base = base;
    this.#files = files;
    this.#runner = runner;
  }

  idOf(name: string): string {
    return backendName(name, this.#maxIdBytes);
  }

  explain(error: unknown): ErrorMapping | undefined {
    return explain(error);
  }

  async create(spec: VolumeSpec, call: Call): Promise<StoredVolume> {
    const id = this.idOf(spec.name);
    const doing = `create volume "${spec.name.slice(0, 160)}"`;
    const existing = await this.#volume(id);
    if (existing) {
      // The call that made it may have ended before this step.
      await this.#files.sync(this.#base).catch((error: unknown) => Promise.reject(unfinished(error, this, doing)));
      return existing;
    }
    await this.#refuseForeign(id);
    const volume: StoredVolume = { ...unbuilt(id), name: spec.name, bytes: sizeFrom(spec.range, 0n) };
    try {
      await this.#build(volume);
    } catch (error) {
      throw await afterFailure(error, () => this.#undo(id, call), this, doing, call);
    }
    return volume;
  }

  async find(id: string): Promise<StoredVolume | undefined> {
    if (!isId(id)) return undefined;
    const found = await this.#volume(id);
    if (found) return found;
    await this.#refuseForeign(id);
    if (await this.#exists(this.#building(id))) return unbuilt(id);
    await this.#refuseAbsentBase();
    return undefined;
  }

  note(volume: StoredVolume, notes: Notes): Promise<StoredVolume> {
    return this.#change({ ...volume, notes: { ...volume.notes, ...notes } });
  }

  finish(volume: StoredVolume, notes: Notes): Promise<StoredVolume> {
    return this.#change({ ...volume, notes: { ...volume.notes, ...notes }, finished: true });
  }

  async remove(id: string, before: (volume: StoredVolume) => Promise<void>, call: Call): Promise<void> {
    if (!isId(id)) return;
    const proved = await this.#mark(this.#path(id));
    const found = await this.find(id);
    if (found) await before(found);
    await this.#discard(this.#building(id), call);
    await this.#discard(this.#removed(id), call);
    if (proved !== undefined) await this.#removeProved(id, proved, call);
    await this.#files.sync(this.#base);
  }

  /** Removes the folder of a volume, but none that another controller has made under the same name since it was found. */
  async #removeProved(id: string, proved: string, call: Call): Promise<void> {
    const [path, removed] = [this.#path(id), this.#removed(id)];
    await unless(this.#files.rename(path, removed), "ENOENT");
    const taken = await this.#mark(removed);
    if (taken === undefined || taken === proved) await this.#discard(removed, call);
    else await this.#files.rename(removed, path);
  }

  /** What tells a folder from a later one of its name, and from one that another controller has finished. */
  async #mark(path: string): Promise<string | undefined> {
    const facts = await unless(this.#files.facts(path), "ENOENT");
    const fields = parsed((await this.#files.readText(`${path}/volume.json`)) ?? "");
    return facts && `${facts.mark} ${fields?.finished}`;
  }

  /** There is no quota, so only the record changes. */
  resize(volume: StoredVolume, bytes: bigint): Promise<StoredVolume> {
    return this.#change({ ...volume, bytes });
  }

  async available(_parameters: Context): Promise<bigint> {
    await this.#refuseAbsentBase();
    return (await this.#files.statfs(this.#base)).availableBytes;
  }

  async list(page: PageRequest): Promise<Page<StoredVolume>> {
    const names = await unless(this.#files.names(this.#base), "ENOENT");
    if (names === undefined) await this.#refuseAbsentBase();
    return pageOf(names ?? [], isId, page, async id => {
      const volume = await this.#volume(id);
      return volume?.finished ? volume : undefined;
    });
  }

  async check(): Promise<void> {
    await this.#refuseAbsentBase();
    await this.#files.usable(this.#base);
  }

  #path(id: string): string {
    return `${this.#base}/${id}`;
  }

  #building(id: string): string {
    return `${this.#base}/.new-${id}`;
  }

  #removed(id: string): string {
    return `${this.#base}/.old-${id}`;
  }

  async #exists(path: string): Promise<boolean> {
    return (await this.#files.entry(path)) !== undefined;
  }

  /** The volume of an id; undefined if something else is there, or nothing. */
  async #volume(id: string): Promise<StoredVolume | undefined> {
    if ((await this.#files.entry(this.#path(id))) !== "folder") return undefined;
    const fields = parsed((await this.#files.readText(`${this.#path(id)}/volume.json`)) ?? "");
    return fields && { ...fields, id, bytes: BigInt(fields.bytes), source: undefined };
  }

  async #build(volume: StoredVolume): Promise<void> {
    const folder = this.#building(volume.id);
    await unless(this.#files.makeFolder(folder, 0o755), "EEXIST");
    await unless(this.#files.makeFolder(`${folder}/data`, 0o777), "EEXIST");
    await this.#files.writeText(`${folder}/volume.json`, textOf(volume), "replace");
    await this.#files.sync(folder);
    await this.#files.rename(folder, this.#path(volume.id));
    await this.#files.sync(this.#base);
  }

  /** Replaces the record in one step. */
  async #change(volume: StoredVolume): Promise<StoredVolume> {
    const record = `${this.#path(volume.id)}/volume.json`;
    await this.#files.writeText(`${record}.new`, textOf(volume), "replace");
    await this.#files.rename(`${record}.new`, record);
    await this.#files.sync(this.#path(volume.id));
    return volume;
  }

  /** Whether nothing is left of a failed creation. */
  async #undo(id: string, call: Call): Promise<boolean> {
    if (await this.#exists(this.#path(id))) return false;
    await this.#discard(this.#building(id), call);
    await this.#files.sync(this.#base);
    return true;
  }

  /** Removes a folder with its content. rm follows no link that a pod may have planted. */
  async #discard(path: string, call: Call): Promise<void> {
    if (!(await this.#exists(path))) return;
    const argv = ["rm", "-rf", "--one-file-system", "--", path] as const;
    const output = await this.#runner.run({ argv, timeoutMs: removalMs }, call.signal);
    if (output.exitCode !== 0) throw toolFailure(this.connection, `remove ${path}`, "rm", output);
  }

  async #refuseForeign(id: string): Promise<void> {
    if (!(await this.#exists(this.#path(id)))) return;
    // Another controller may have made it since it was looked for.
    if (await this.#volume(id)) throw this.#error("aborted", `volume "${id}" was made meanwhile; retrying`);
    throw this.#error("failed-precondition", `${this.#path(id)} was not created by csimux and is kept; move it away`);
  }

  /** Below a folder that is not mounted, every volume looks deleted. */
  async #refuseAbsentBase(): Promise<void> {
    if (await this.#exists(`${this.#base}/.`)) return;
    throw this.#error("unavailable", `${this.#base} does not exist; create or mount it`);
  }

  #error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }
}

/** A volume without a folder yet. */
const unbuilt = (id: string): StoredVolume => ({
  id,
  name: undefined,
  bytes: 0n,
  source: undefined,
  notes: {},
  finished: false,
});

function textOf({ id, name = id, bytes, notes, finished }: StoredVolume): string {
  const fields: Fields = { name, bytes: String(bytes), notes, finished };
  return JSON.stringify(fields);
}

/** The fields of a record; undefined if csimux did not write the text. */
function parsed(text: string): Fields | undefined {
  try {
    const { name, bytes, notes, finished }: Partial<Record<keyof Fields, unknown>> = JSON.parse(text);
    if (typeof name !== "string" || typeof bytes !== "string" || !/^\d+$/.test(bytes)) return undefined;
    if (typeof notes !== "object" || notes === null || typeof finished !== "boolean") return undefined;
    return { name, bytes, notes: notes as Notes, finished };
  } catch {
    return undefined;
  }
}

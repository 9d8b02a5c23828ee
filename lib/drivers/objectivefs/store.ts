import { wantedBytes } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import { isSecretVariable, isVariable, variablesOf } from "../../core/variables.ts";
import type { Context, Page, PageRequest, VolumeSpec } from "../driver.ts";
import { afterFailure, type FailureContext } from "../failure.ts";
import { pageOf } from "../pages.ts";
import type { Notes, StoredVolume, VolumeStore } from "../store.ts";
import { type FilesystemNames, isOfClaim, isVolumeId } from "./names.ts";
import type { OfsCli } from "./ofs-cli.ts";
import { explainOfs } from "./ofs-error.ts";

/** A file system that is a volume. Its notes are the variables of the class, which are stored only in the volume context. */
export interface ObjectiveFsVolume extends StoredVolume {
  /** Its name in the pool. */
  readonly filesystem: string;
}

/** The file systems of an id: one with this connection's mark, or an unmarked one with exactly this name. */
interface ExistingFilesystems {
  readonly marked: ObjectiveFsVolume | undefined;
  /** Names of further ones with a mark of this connection. */
  readonly more: readonly string[];
  readonly bare: ObjectiveFsVolume | undefined;
  /** The name of one with the mark of another connection. */
  readonly foreign: string | undefined;
}

/**
 * Volumes as file systems in a pool. A single command creates one, under a name that contains its whole record, so it is
 * complete as soon as it exists, see FilesystemNames.
 */
export class ObjectiveFsStore implements VolumeStore<ObjectiveFsVolume>, FailureContext {
  readonly explain = explainOfs;
  readonly connection: string;
  readonly #names: FilesystemNames;
  readonly #cli: OfsCli;

  constructor(connection: string, names: FilesystemNames, cli: OfsCli) {
    this.connection = connection;
    this.#names = names;
    this.#cli = cli;
  }

  idOf(name: string): string {
    return this.#names.idOf(name);
  }

  /** A name that the driver cannot parse is an id: a file system without a mark has that name. */
  idOfObject(object: string): string {
    return this.#names.parse(object)?.id ?? object;
  }

  async create(spec: VolumeSpec, call: Call): Promise<ObjectiveFsVolume> {
    const id = this.idOf(spec.name);
    const notes = this.#variables(spec.parameters);
    const { marked, bare } = await this.#existing(id, call);
    if (marked) return { ...marked, notes };
    if (bare)
      throw this.#error(
        "already-exists",
        `a file system "${bare.filesystem}" exists without a mark of this connection and is not adopted; remove it or choose another name`,
      );
    const asset = { ...this.#asset(id, this.#names.filesystem(id, wantedBytes(spec.range))), notes };
    await this.#make(asset, spec.name, call);
    return asset;
  }

  async find(id: string, call: Call): Promise<ObjectiveFsVolume | undefined> {
    if (!isVolumeId(id)) return undefined;
    const { marked, bare } = await this.#existing(id, call);
    return marked ?? bare;
  }

  /** An existing file system is finished. */
  async finish(asset: ObjectiveFsVolume, notes: Notes): Promise<ObjectiveFsVolume> {
    return { ...asset, notes: { ...asset.notes, ...notes } };
  }

  async remove(id: string, before: (asset: ObjectiveFsVolume) => Promise<void>, call: Call): Promise<void> {
    if (!isVolumeId(id)) return;
    const { marked, more, bare, foreign } = await this.#existing(id, call);
    if (marked && more.length > 0) throw this.#ambiguous(id, [marked.filesystem, ...more]);
    if (!marked && bare && !isOfClaim(id))
      throw this.#error(
        "failed-precondition",
        `the file system "${bare.filesystem}" has no mark of this connection and is kept; if it is yours, run mount.objectivefs destroy`,
      );
    const asset = marked ?? bare;
    // Its id occurs nowhere else, so it is the volume, made when the connection had another instance_id.
    if (!asset && foreign !== undefined && isOfClaim(id))
      throw this.#error(
        "failed-precondition",
        `the file system "${foreign}" has the mark of another connection or instance_id and is kept; restore the instance_id, or run mount.objectivefs destroy if it is yours`,
      );
    if (!asset) return;
    await before(asset);
    await this.#cli.destroy(asset.filesystem, call.signal);
  }

  async list(page: PageRequest, call: Call): Promise<Page<ObjectiveFsVolume>> {
    const byId = new Map<string, ObjectiveFsVolume>();
    for (const filesystem of [...(await this.#cli.all(call.signal))].sort().reverse()) {
      const id = this.#names.parse(filesystem)?.id ?? (isOfClaim(filesystem) ? filesystem : undefined);
      if (id !== undefined) byId.set(id, this.#asset(id, filesystem));
    }
    return pageOf([...byId.keys()], isVolumeId, page, async id => byId.get(id));
  }

  async check(call: Call): Promise<void> {
    await this.#cli.list(call.signal);
  }

  /**
   * Of several marked ones, the first of the present owner by name counts. Concurrent processes can create them, and so can two clusters whose
   * connections have one name, of which one got an `instance_id`.
   */
  async #existing(id: string, call: Call): Promise<ExistingFilesystems> {
    const isMarked = (each: string): boolean => this.#names.parse(each)?.id === id;
    const listed = await this.#cli.list(call.signal);
    // Only two listings together prove that there is none, or none with the mark.
    const all = [...(listed.some(isMarked) ? listed : [...listed, ...(await this.#cli.list(call.signal))])].sort();
    const [marked, ...more] = [...new Set(all.filter(isMarked))].sort(
      (a, b) => Number(this.#names.isOfFirst(b)) - Number(this.#names.isOfFirst(a)),
    );
    const bare = all.find(each => each === id && !this.#names.parse(each));
    return {
      marked: marked === undefined ? undefined : this.#asset(id, marked),
      more,
      bare: bare === undefined ? undefined : this.#asset(id, bare),
      foreign: all.find(each => !isMarked(each) && this.#names.isOfAny(each, id)),
    };
  }

  /** A failure is final only if the file system provably does not exist. */
  async #make({ filesystem }: ObjectiveFsVolume, name: string, call: Call): Promise<void> {
    try {
      await this.#cli.create(filesystem, call.signal);
    } catch (error) {
      const undo = async () => !(await this.#cli.all(call.signal)).includes(filesystem);
      throw await afterFailure(error, undo, this, `create volume "${name.slice(0, 160)}"`, call);
    }
  }

  #asset(id: string, filesystem: string): ObjectiveFsVolume {
    const bytes = this.#names.parse(filesystem)?.bytes ?? 0n;
    return { id, filesystem, name: undefined, bytes, source: undefined, notes: {}, finished: true };
  }

  /** The parameters `env.<name>` of a class. They become part of the PersistentVolume, which is not secret. */
  #variables(parameters: Context): Notes {
    const wrong = (what: string) => this.#error("invalid-argument", `the parameter ${what}`);
    const variables = Object.entries(variablesOf(parameters));
    for (const [name] of variables) {
      const key = `env.${name.slice(0, 80)}`;
      if (isSecretVariable(name))
        throw wrong(`${key} would appear in the PersistentVolume; put it into the node-stage secret`);
      if (!isVariable(name)) throw wrong(`${key} is not a variable that a class may set`);
    }
    return Object.fromEntries(variables.map(([name, value]) => [`env.${name}`, value]));
  }

  /** No mark tells which of them the PersistentVolume names: one can be another cluster's. */
  #ambiguous(id: string, filesystems: readonly string[]): CsiError {
    const text = `several file systems are the volume "${id}": ${filesystems.join(", ")}; none is destroyed; find the one that nodes have mounted in the PersistentVolume, and run mount.objectivefs destroy for those that are not needed`;
    return this.#error("failed-precondition", text);
  }

  #error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }
}

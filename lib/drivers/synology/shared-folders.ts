import type { Call } from "../../core/call.ts";
import type { Finding } from "../../health/finding.ts";
import type { Source, VolumeSpec } from "../driver.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { Notes, VolumeStore } from "../store.ts";
import { errors, isNoShare } from "./dsm-error.ts";
import { type FolderMark, FolderNames } from "./folder-names.ts";
import { Folders, mebibyte, type SharedFolder, type StillSame } from "./folders.ts";
import { isUnique, sourceTag } from "./names.ts";
import { type DsmUnit, type Kind, type Origin, ownersOf, type UnitPlace } from "./unit.ts";

type All = readonly SharedFolder[];

/** A shared folder that is a volume or is becoming one. */
export interface FolderVolume extends DsmUnit<All> {
  readonly folder: SharedFolder;
}

/** The shared folders of one connection, with a quota. The description of a folder records its owner and state. */
export class SharedFolders implements Kind<FolderVolume, All> {
  readonly place: UnitPlace;
  readonly folders: Folders;
  readonly names: FolderNames;
  readonly sizeUnit = mebibyte;
  readonly shrinks = true;
  readonly existsCode = errors.shareExists;
  readonly isGone = isNoShare;

  constructor(identity: ConnectionIdentity, place: UnitPlace, prefix: string) {
    this.place = place;
    this.folders = new Folders(place.dsm);
    this.names = new FolderNames(prefix, ownersOf(identity), identity.maxIdBytes);
  }

  read({ signal }: Pick<Call, "signal">): Promise<All> {
    return this.folders.list(signal);
  }

  find(id: string, all: All): FolderVolume | undefined {
    return this.#volume(this.folder(id, all));
  }

  finished(all: All): readonly FolderVolume[] {
    return all.flatMap(each => this.#volume(each) ?? []).filter(({ finished }) => finished);
  }

  /** A half-removed folder has the name of the new one. */
  async prepare(id: string, _source: Source | undefined, all: All, call: Call): Promise<void> {
    const folder = this.folder(id, all);
    if (folder && !this.names.parse(folder.description)) {
      const text = `the shared folder "${folder.name}" exists and does not belong to this connection`;
      throw this.place.error("already-exists", text);
    }
    await this.remove(id, all, call);
  }

  async make(id: string, { source }: VolumeSpec, bytes: bigint, origin: Origin<FolderVolume> | undefined, call: Call) {
    const description = this.names.mark("new", source && sourceTag(source));
    const folder = { name: this.names.share(id), location: this.place.location, description, bytes };
    if (origin) await this.folders.clone(folder, origin.unit.folder.name, origin.name, call.signal);
    else await this.folders.create(folder, call.signal);
  }

  async made(id: string, _source: Source | undefined, call: Call): Promise<FolderVolume | undefined> {
    return this.find(id, await this.read(call));
  }

  async finish(unit: FolderVolume, _notes: Notes, call: Call): Promise<FolderVolume> {
    const { id, folder, tag } = unit;
    const description = this.names.mark("ok", tag);
    await this.folders.set(folder, { description }, this.unchanged(id, folder), call.signal);
    const finished = this.find(id, await this.read(call));
    if (finished) return { ...finished, source: unit.source };
    throw this.place.error("aborted", `the shared folder of volume "${id}" has disappeared; retrying`);
  }

  resize({ id, folder }: FolderVolume, bytes: bigint, call: Call): Promise<void> {
    return this.folders.set(folder, { bytes }, this.unchanged(id, folder), call.signal);
  }

  isThere(id: string, all: All): boolean {
    const folder = this.folder(id, all);
    if (folder && !this.names.parse(folder.description)) throw this.place.kept(`the shared folder "${folder.name}"`);
    return folder !== undefined;
  }

  otherwise(id: string, all: All): string | undefined {
    if (!isUnique(id)) return undefined;
    const isIt = ({ name, description }: SharedFolder) => {
      const mark = this.names.parse(description);
      const isNamed = name.toLowerCase().endsWith(id) && name.toLowerCase() !== this.names.share(id);
      return mark !== undefined && mark.state !== "del" && isNamed;
    };
    return all.find(isIt)?.name;
  }

  async remove(id: string, all: All, call: Call): Promise<void> {
    const folder = this.folder(id, all);
    const mark = folder && this.names.parse(folder.description);
    if (!mark) return;
    const removed = { ...folder, description: this.names.mark("del", mark.source) };
    if (mark.state !== "del") {
      // A half-removed folder must not be mistaken for a half-created one.
      const { description } = removed;
      await this.folders.set(folder, { description }, this.unchanged(id, folder), call.signal);
    }
    const last = mark.state === "del" ? folder : removed;
    await this.folders.delete(folder.name, this.unchanged(id, last), call.signal);
    const gone = async () => this.folder(id, await this.read(call))?.uuid !== folder.uuid || undefined;
    await this.place.awaited(gone, "removing", id, call);
  }

  findings(): readonly Finding[] {
    return [];
  }

  idOfObject(object: string): string {
    return this.names.idIn(object.toLowerCase()) ?? object;
  }

  get adoption(): Pick<VolumeStore<FolderVolume>, "unmarked" | "mark"> {
    const { location } = this.place;
    return {
      unmarked: async (id, call) => {
        const folder = this.folder(id, await this.read(call));
        if (!folder) return undefined;
        if (folder.location !== location || folder.description.startsWith("csimux "))
          throw this.place.error(
            "failed-precondition",
            `the shared folder "${folder.name}" is on ${folder.location} with the description "${folder.description}"; only one on ${location} without a mark of csimux can be adopted`,
          );
        return this.#marked(id, folder, { state: "ok", owner: "", source: undefined });
      },
      mark: ({ id, folder }, _notes, call) => {
        const description = this.names.mark("ok", undefined);
        return this.folders.set(folder, { description }, this.unchanged(id, folder), call.signal);
      },
    };
  }

  /** The folder with the name of this volume, by any creator. */
  folder(id: string, all: All): SharedFolder | undefined {
    if (!this.names.isId(id)) return undefined;
    const name = this.names.share(id);
    return all.find(each => each.name.toLowerCase() === name);
  }

  /** Throws "aborted" unless the folder is what was read: another controller may have finished or expanded it, or removed it and made another one. */
  unchanged(id: string, { uuid, description, bytes }: SharedFolder): StillSame {
    return folders => {
      const now = this.folder(id, folders);
      if (now?.uuid === uuid && now.description === description && now.bytes === bytes) return;
      const text = `another controller changed or removed the shared folder of volume "${id}" meanwhile; retrying`;
      throw this.place.error("aborted", text);
    };
  }

  /** Undefined for a foreign folder and for one that is being removed. */
  #volume(folder: SharedFolder | undefined): FolderVolume | undefined {
    const id = folder && this.names.idIn(folder.name.toLowerCase());
    const mark = folder && this.names.parse(folder.description);
    return !folder || id === undefined || !mark || mark.state === "del" ? undefined : this.#marked(id, folder, mark);
  }

  #marked(id: string, folder: SharedFolder, { state, source: tag }: FolderMark): FolderVolume {
    const { bytes } = folder;
    return { id, folder, tag, bytes, name: undefined, source: undefined, notes: {}, finished: state === "ok" };
  }
}

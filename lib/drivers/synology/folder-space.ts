import type { Call } from "../../core/call.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import type { Meaning, Subject } from "../failure.ts";
import type { Identity } from "../module.ts";
import type { Asset } from "../store.ts";
import { explainDsm } from "./dsm-error.ts";
import { FolderNames, type Mark } from "./folder-names.ts";
import type { Folder, Folders } from "./folders.ts";
import { ownersOf } from "./space.ts";

/** A shared folder that is a volume, or is becoming one. */
export interface FolderAsset extends Asset {
  readonly folder: Folder;
  readonly mark: Mark;
}

/** The shared folders of one connection. */
export class FolderSpace implements Subject {
  readonly connection: string;
  readonly names: FolderNames;
  readonly folders: Folders;
  /** The volume of DSM, such as /volume1. */
  readonly location: string;

  constructor(identity: Identity, folders: Folders, prefix: string, location: string) {
    this.connection = identity.connection;
    this.folders = folders;
    this.location = location;
    this.names = new FolderNames(prefix, ownersOf(identity), identity.maxIdBytes);
  }

  explain(error: unknown): Meaning | undefined {
    return explainDsm(error);
  }

  error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }

  /** The folder of this volume, whoever made it. */
  async folder(id: string, call: Call): Promise<Folder | undefined> {
    if (!this.names.isId(id)) return undefined;
    const name = this.names.share(id);
    return (await this.folders.list(call.signal)).find(each => each.name.toLowerCase() === name);
  }

  /** The volume that a folder is; undefined for one that somebody else made, or that is being removed. */
  asset(folder: Folder | undefined): FolderAsset | undefined {
    const id = folder && this.names.idIn(folder.name.toLowerCase());
    const mark = folder && this.names.parse(folder.description);
    if (!folder || id === undefined || !mark || mark.state === "del") return undefined;
    const { bytes } = folder;
    return { id, folder, mark, bytes, name: undefined, source: undefined, notes: {}, finished: mark.state === "ok" };
  }

  /** The volumes of this connection that are whole. */
  async volumes(call: Call): Promise<readonly FolderAsset[]> {
    const all = await this.folders.list(call.signal);
    return all.flatMap(each => this.asset(each) ?? []).filter(({ finished }) => finished);
  }
}

import type { Call } from "../../core/call.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import type { ErrorMapping, FailureContext } from "../failure.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { StoredVolume } from "../store.ts";
import { explainDsm } from "./dsm-error.ts";
import { type FolderMark, FolderNames } from "./folder-names.ts";
import type { Folders, SharedFolder } from "./folders.ts";
import { ownersOf } from "./lun-context.ts";

/** A shared folder that is a volume, or is becoming one. */
export interface FolderVolume extends StoredVolume {
  readonly folder: SharedFolder;
  readonly mark: FolderMark;
}

/** The shared folders of one connection. */
export class FolderContext implements FailureContext {
  readonly connection: string;
  readonly names: FolderNames;
  readonly folders: Folders;
  /** The volume of DSM, such as /volume1. */
  readonly location: string;

  constructor(identity: ConnectionIdentity, folders: Folders, prefix: string, location: string) {
    this.connection = identity.connection;
    this.folders = folders;
    this.location = location;
    this.names = new FolderNames(prefix, ownersOf(identity), identity.maxIdBytes);
  }

  explain(error: unknown): ErrorMapping | undefined {
    return explainDsm(error);
  }

  error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }

  /** The folder of this volume, whoever made it. */
  async folder(id: string, call: Call): Promise<SharedFolder | undefined> {
    if (!this.names.isId(id)) return undefined;
    const name = this.names.share(id);
    return (await this.folders.list(call.signal)).find(each => each.name.toLowerCase() === name);
  }

  /** The volume that a folder is; undefined for one that somebody else made, or that is being removed. */
  asset(folder: SharedFolder | undefined): FolderVolume | undefined {
    const id = folder && this.names.idIn(folder.name.toLowerCase());
    const mark = folder && this.names.parse(folder.description);
    if (!folder || id === undefined || !mark || mark.state === "del") return undefined;
    const { bytes } = folder;
    return { id, folder, mark, bytes, name: undefined, source: undefined, notes: {}, finished: mark.state === "ok" };
  }

  /** The volumes of this connection that are whole. */
  async volumes(call: Call): Promise<readonly FolderVolume[]> {
    const all = await this.folders.list(call.signal);
    return all.flatMap(each => this.asset(each) ?? []).filter(({ finished }) => finished);
  }
}

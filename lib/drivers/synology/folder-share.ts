import { protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import type { Context, VolumeSpec } from "../driver.ts";
import type { Notes, ShareProtocol } from "../store.ts";
import type { FolderContext, FolderVolume } from "./folder-context.ts";
import type { NfsRule } from "./folders.ts";

type Keep = (notes: Notes) => Promise<FolderVolume>;

/** Who may mount the volumes over NFS. */
export interface NfsSettings {
  readonly server: string;
  readonly hosts: readonly string[];
  /** DSM's word for whom the users of a node become. */
  readonly squash: string;
}

/** Shared folders over NFS: a rule for each host that may mount one. */
export class NfsFolders implements ShareProtocol<FolderVolume> {
  readonly protocol = "nfs";
  readonly access = protocols.nfs;
  readonly growsOnNode = false;
  readonly #space: FolderContext;
  readonly #settings: NfsSettings;

  constructor(space: FolderContext, settings: NfsSettings) {
    this.#space = space;
    this.#settings = settings;
  }

  async publish({ folder }: FolderVolume, _spec: VolumeSpec, _keep: Keep, call: Call): Promise<Notes> {
    const wanted = this.#settings.hosts.map(host => ruleFor(host, this.#settings.squash));
    const standing = await this.#space.folders.nfsRules(folder.name, call.signal);
    const same =
      standing.length === wanted.length &&
      wanted.every(rule =>
        standing.some(each => each["client"] === rule.client && each["root_squash"] === rule.root_squash),
      );
    if (!same) await this.#space.folders.setNfsRules(folder.name, wanted, call.signal);
    return {};
  }

  context({ folder: { location, name } }: FolderVolume): Context {
    return { server: this.#settings.server, share: `${location}/${name}` };
  }

  async withdraw({ folder }: FolderVolume, call: Call): Promise<void> {
    const standing = await this.#space.folders.nfsRules(folder.name, call.signal);
    if (standing.length > 0) await this.#space.folders.setNfsRules(folder.name, [], call.signal);
  }
}

const ruleFor = (client: string, squash: string): NfsRule => ({
  client,
  privilege: "rw",
  root_squash: squash,
  async: false,
  insecure: true,
  crossmnt: true,
  security_flavor: { sys: true, kerberos: false, kerberos_integrity: false, kerberos_privacy: false },
});

/** Who may use the volumes over SMB. */
export interface SmbSettings {
  readonly server: string;
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

/** Shared folders over SMB: accounts of DSM that may write. They go with the folder. */
export class SmbFolders implements ShareProtocol<FolderVolume> {
  readonly protocol = "smb";
  readonly access = protocols.smb;
  readonly growsOnNode = false;
  readonly #space: FolderContext;
  readonly #settings: SmbSettings;

  constructor(space: FolderContext, settings: SmbSettings) {
    this.#space = space;
    this.#settings = settings;
  }

  async publish({ folder }: FolderVolume, _spec: VolumeSpec, _keep: Keep, call: Call): Promise<Notes> {
    const { users, groups } = this.#settings;
    if (users.length > 0) await this.#space.folders.permit(folder.name, "local_user", users, call.signal);
    if (groups.length > 0) await this.#space.folders.permit(folder.name, "local_group", groups, call.signal);
    return {};
  }

  context({ folder: { name } }: FolderVolume): Context {
    return { server: this.#settings.server, share: name };
  }
}

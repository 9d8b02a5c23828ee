import { protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import type { Context, VolumeSpec } from "../driver.ts";
import type { Notes, ShareProtocol } from "../store.ts";
import type { FolderContext, FolderVolume } from "./contexts.ts";
import type { NfsRule } from "./folders.ts";

type Keep = (notes: Notes) => Promise<FolderVolume>;

/** The hosts that may mount the volumes over NFS. */
export interface NfsSettings {
  readonly server: string;
  readonly hosts: readonly string[];
  /** DSM's name for the mapping of the users of nodes. */
  readonly squash: string;
}

/** Shared folders over NFS, with a rule for each host that may mount them. */
export class NfsFolders implements ShareProtocol<FolderVolume> {
  readonly protocol = "nfs";
  readonly access = protocols.nfs;
  readonly growsOnNode = false;
  readonly #context: FolderContext;
  readonly #settings: NfsSettings;

  constructor(context: FolderContext, settings: NfsSettings) {
    this.#context = context;
    this.#settings = settings;
  }

  async publish({ folder }: FolderVolume, _spec: VolumeSpec, _keep: Keep, call: Call): Promise<Notes> {
    const wanted = this.#settings.hosts.map(host => ruleFor(host, this.#settings.squash));
    const existing = await this.#context.folders.nfsRules(folder.name, call.signal);
    const same =
      existing.length === wanted.length &&
      wanted.every(rule =>
        existing.some(each => each["client"] === rule.client && each["root_squash"] === rule.root_squash),
      );
    if (!same) await this.#context.folders.setNfsRules(folder.name, wanted, call.signal);
    return {};
  }

  async existing({ folder }: FolderVolume, call: Call): Promise<Notes> {
    if ((await this.#context.folders.nfsRules(folder.name, call.signal)).length > 0) return {};
    throw this.#context.error(
      "failed-precondition",
      `DSM shares "${folder.name}" with no host over NFS; allow that first`,
    );
  }

  context({ folder: { location, name } }: FolderVolume): Context {
    return { server: this.#settings.server, share: `${location}/${name}` };
  }

  async withdraw({ folder }: FolderVolume, call: Call): Promise<void> {
    const existing = await this.#context.folders.nfsRules(folder.name, call.signal);
    if (existing.length > 0) await this.#context.folders.setNfsRules(folder.name, [], call.signal);
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

/** The accounts that may use the volumes over SMB. */
export interface SmbSettings {
  readonly server: string;
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

/** Shared folders over SMB, with permissions for accounts of DSM, which DSM deletes with the folder. */
export class SmbFolders implements ShareProtocol<FolderVolume> {
  readonly protocol = "smb";
  readonly access = protocols.smb;
  readonly growsOnNode = false;
  readonly #context: FolderContext;
  readonly #settings: SmbSettings;

  constructor(context: FolderContext, settings: SmbSettings) {
    this.#context = context;
    this.#settings = settings;
  }

  async publish({ folder }: FolderVolume, _spec: VolumeSpec, _keep: Keep, call: Call): Promise<Notes> {
    const { users, groups } = this.#settings;
    if (users.length > 0) await this.#context.folders.permit(folder.name, "local_user", users, call.signal);
    if (groups.length > 0) await this.#context.folders.permit(folder.name, "local_group", groups, call.signal);
    return {};
  }

  /** DSM shares every folder over SMB; its permissions are up to its administrator. */
  async existing(): Promise<Notes> {
    return {};
  }

  context({ folder: { name } }: FolderVolume): Context {
    return { server: this.#settings.server, share: name };
  }
}

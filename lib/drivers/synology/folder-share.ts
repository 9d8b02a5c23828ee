import { protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { inUse } from "../failure.ts";
import type { ShareProtocol } from "../store.ts";
import { errors, isAnswer } from "./dsm-error.ts";
import type { NfsRule } from "./folders.ts";
import { textOf } from "./rows.ts";
import type { FolderVolume, SharedFolders } from "./shared-folders.ts";

/** The hosts that may mount the volumes over NFS. */
export interface NfsSettings {
  readonly server: string;
  readonly hosts: readonly string[];
  /** DSM's name for the mapping of the users of nodes. */
  readonly squash: string;
}

/** The two names that versions of DSM have for each mapping, by the names in the connection file: most versions take the first. */
const squashWords: Readonly<Record<string, readonly [string, string]>> = {
  no_map: ["root", "no_map"],
  root_admin: ["admin", "root_admin"],
  root_guest: ["guest", "root_guest"],
  all_admin: ["all_admin", "all_admin"],
  all_guest: ["all_guest", "all_guest"],
};

/** Shared folders over NFS, with a rule for each host that may mount them. */
export function nfsFolders(on: SharedFolders, settings: NfsSettings): ShareProtocol<FolderVolume> {
  const { folders } = on;
  const { hosts, squash } = settings;
  const [usual, other] = squashWords[squash] ?? [squash, squash];

  /** Saves the rules, with the other words for the mapping if DSM does not take the usual ones. */
  async function save(name: string, call: Call): Promise<void> {
    const rules = (word: string) => hosts.map(host => ruleFor(host, word));
    try {
      await folders.setNfsRules(name, rules(usual), call.signal);
    } catch (error) {
      if (!isAnswer(error, errors.noNfsRule) || other === usual) throw error;
      await folders.setNfsRules(name, rules(other), call.signal);
    }
  }

  return {
    ...{ protocol: "nfs", access: protocols.nfs, growsOnNode: false },
    async publish({ folder }, _spec, _keep, call) {
      const existing = await folders.nfsRules(folder.name, call.signal);
      const has = (host: string) =>
        existing.some(each => each["client"] === host && [usual, other].includes(textOf(each["root_squash"])));
      const same = existing.length === hosts.length && hosts.every(has);
      if (!same) await save(folder.name, call);
      return {};
    },
    async existing({ folder }, call) {
      if ((await folders.nfsRules(folder.name, call.signal)).length > 0) return {};
      const text = `DSM shares "${folder.name}" with no host over NFS; allow that first`;
      throw on.place.error("failed-precondition", text);
    },
    context: ({ folder: { location, name } }) => ({ server: settings.server, share: `${location}/${name}` }),
    async withdraw({ id, folder }, call) {
      const existing = await folders.nfsRules(folder.name, call.signal);
      if (existing.length === 0) return;
      await folders.setNfsRules(folder.name, [], call.signal, on.unchanged(id, folder));
    },
  };
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
export const smbFolders = (
  { folders }: SharedFolders,
  { server, users, groups }: SmbSettings,
): ShareProtocol<FolderVolume> => ({
  ...{ protocol: "smb", access: protocols.smb, growsOnNode: false },
  async publish({ folder: { name }, finished }, _spec, _keep, call) {
    for (const [kind, accounts] of [["local_user", users] as const, ["local_group", groups] as const]) {
      if (accounts.length === 0) continue;
      const isSaved = finished && (await folders.isPermitted(name, kind, accounts, call.signal));
      if (!isSaved) await folders.permit(name, kind, accounts, call.signal);
    }
    return {};
  },
  /** DSM shares every folder over SMB; its permissions are up to its administrator. */
  existing: async () => ({}),
  context: ({ folder: { name } }) => ({ server, share: name }),
  /** Throws "failed-precondition" while a session of SMB uses the folder. */
  async withdraw({ id, folder }, call) {
    const users = await folders.smbUsers(folder.name, call.signal);
    if (users.length > 0) throw inUse(`volume "${id}"`, users);
  },
});

import { protocols } from "../../core/access.ts";
import type { Secrets } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { flagValue, otherFlags, withoutPasswords } from "../mount/flags.ts";
import type { MountErrorPatterns } from "../mount/mount-errors.ts";
import type { Attacher, AttacherPorts, AttachRequest } from "./attacher.ts";
import { ownSecrets, serversOf, shareOf, storageOfShare } from "./context.ts";

/** The port of SMB servers (MS-SMB2, 2.1). */
const port = 445;

/** Error patterns of mount.cifs(8): an errno in brackets. */
const patterns: MountErrorPatterns = [
  [/mount error\(13\)|mount error\((?:126|127|128|129)\)/, "permission-denied"],
  [/mount error\((?:11|101|104|110|111|112|113|115)\)/, "unavailable"],
  [/mount error\((?:19|22|95)\)/, "failed-precondition"],
  [/mount error\((?:2|6)\)/, "not-found"],
];

/** Flags that choose the credentials by themselves. */
const identified = /^(?:guest|credentials|cred|sec=krb5i?|sec=none)(?:=|$)/i;

interface Login {
  readonly options: readonly string[];
  readonly password: string | undefined;
}

/**
 * The credentials: keys `username`, `password` and `domain` of the stage secret, or mount flags of the same names,
 * mostly from `mount_flags` of the secret. Without a user name the login is as guest, because mount.cifs(8) would
 * prompt on a terminal.
 */
function login({ capability, volumeId }: AttachRequest, secrets: Secrets): Login {
  const flags = capability.mountFlags;
  const named = ["username", "user"];
  const username = secrets["username"] ?? flagValue(flags, ...named);
  const password = secrets["password"] ?? flagValue(flags, "password", "pass");
  const domain = secrets["domain"] ?? flagValue(flags, "domain", "dom", "workgroup");
  const given = Object.entries({ username, domain }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  for (const [key, value] of given) {
    if (/[,\n\0]/.test(value))
      throw new CsiError("invalid-argument", `volume "${volumeId}": the ${key} contains a comma or a line break`);
  }
  if (password !== undefined && /[\n\0]/.test(password))
    throw new CsiError("invalid-argument", `volume "${volumeId}": the password contains a line break`);
  const asGuest = username === undefined && !flags.some(flag => identified.test(flag));
  const options = [...given.map(([key, value]) => `${key}=${value}`), ...(asGuest ? ["guest"] : [])];
  return { options, password };
}

/** Flags that `login` replaces. */
const ofLogin = /^(?:username|user|domain|dom|workgroup)=/i;

/**
 * The owner's group and the modes of all files, as the node shows them: SMB has no Unix owners, and with the modes of mount.cifs(8), 0755,
 * only root could write. The server checks the account of the mount. Flags of the caller win.
 */
function modes(flags: readonly string[], group: string | undefined): readonly string[] {
  const mode = group === undefined ? "0777" : "0770";
  const names = ["file_mode", "dir_mode"].filter(name => flagValue(flags, name) === undefined);
  return [...names.map(name => `${name}=${mode}`), ...(group === undefined ? [] : [`gid=${group}`])];
}

/**
 * SMB: `server` and `share` of the context; `share` may include a folder. Flags are those of mount.cifs(8) (`vers=`,
 * `multiuser`, `seal`, …). The password reaches the helper through its standard input, never through a command line,
 * environment or file.
 */
export const smb = ({ hostMounts }: Pick<AttacherPorts, "hostMounts">): Attacher => ({
  access: protocols.smb,
  storageOf: context => storageOfShare("smb", port, context),
  async attach(wanted, _, call) {
    const share = shareOf(wanted).replace(/^\/+/, "");
    const [source, ...alternatives] = serversOf(wanted).map(server => `//${unbracketed(server)}/${share}`);
    const { options, password } = login(wanted, ownSecrets(call.secrets, wanted.context));
    const others = withoutPasswords(otherFlags(wanted.capability.mountFlags)).filter(flag => !ofLogin.test(flag));
    return {
      kind: "share",
      fsType: wanted.capability.fsType ?? "cifs",
      source: source ?? "",
      alternatives,
      options: [...options, ...others, ...modes(others, wanted.capability.mountGroup)],
      onHost: hostMounts,
      errorPatterns: patterns,
      ...(password !== undefined && { stdin: password, secret: [password], env: { PASSWD_FD: "0" } }),
    };
  },
});

/** Removes the brackets of an IPv6 address: UNC names have none (mount.cifs(8)). */
const unbracketed = (server: string): string => server.replace(/^\[|\]$/g, "");

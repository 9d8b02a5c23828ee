import { type Permissions, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../client.ts";
import { type AclChange, type AclEntry, aclChange, completed, merged, nfs4Entry, posixEntry } from "./acl.ts";
import { zfsError } from "./words.ts";

/** Typed requests: one without a mode is no request for permissions, and names of owners are taken. */
const typed = 2504;

const isNumber = (text: string | undefined): boolean => text === undefined || /^[0-9]+$/.test(text);

/** User and group as the API takes them: numbers as numbers, names under another key. */
const owner = ({ user, group }: Permissions): object => ({
  ...(user === undefined ? {} : isNumber(user) ? { uid: Number(user) } : { user }),
  ...(group === undefined ? {} : isNumber(group) ? { gid: Number(group) } : { group }),
});

/**
 * Mode, owner and access control list of the top folder of a file system. Each is a job, and a job that fails is a failure: what
 * it was to set is not set. The list comes last, since a mode takes its place.
 */
export async function permitted(api: Api, path: string, permissions: Permissions, signal: AbortSignal): Promise<void> {
  const { mode, user, group, acls } = permissions;
  const changes = acls.map(aclChange);
  const { number } = await api.version(signal);
  if (number < typed && !(isNumber(user) && isNumber(group)))
    throw new ZfsError("invalid", "before TrueNAS 25.04 users and groups must be numbers");
  try {
    // A list inherited from above would stand in the way of a mode.
    const bits = { path, mode, ...owner(permissions), options: { stripacl: true } };
    if (mode !== undefined) await api.job("filesystem.setperm", [bits], signal);
    else if (user !== undefined || group !== undefined)
      await api.job("filesystem.chown", [{ path, ...owner(permissions) }], signal);
    if (changes.length > 0) await listed(api, path, changes, signal);
  } catch (error) {
    throw zfsError(error);
  }
}

/** What `filesystem.getacl` answers. */
interface Listed {
  readonly acltype: string;
  readonly acl: readonly AclEntry[] | null;
}

async function listed(api: Api, path: string, changes: readonly AclChange[], signal: AbortSignal): Promise<void> {
  if (changes.some(({ clear }) => clear))
    await api.job("filesystem.setperm", [{ path, options: { stripacl: true } }], signal);
  const { acltype, acl } = (await api.call("filesystem.getacl", [path, false], signal)) as Listed;
  const texts = changes.flatMap(({ entries }) => entries);
  if (texts.length === 0) return;
  if (acl === null || acltype === "DISABLED")
    throw new ZfsError("invalid", `${path} takes no access control lists: its dataset has acltype off`);
  const dacl = acltype === "NFS4" ? merged(acl, texts.map(nfs4Entry)) : completed(merged(acl, texts.map(posixEntry)));
  await api.job("filesystem.setacl", [{ path, dacl }], signal);
}

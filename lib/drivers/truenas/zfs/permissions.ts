import { type Permissions, ZfsError } from "../../zfs/zfs.ts";
import type { Api } from "../api.ts";
import { type AclChange, type AclEntry, aclChange, completed, merged, nfs4Entry, posixEntry } from "./acl.ts";
import { zfsError } from "./queries.ts";

/** The first version whose requests take names of owners, and that refuses a setperm without a mode. */
const withNames = 2504;

const isNumber = (text: string | undefined): boolean => text === undefined || /^[0-9]+$/.test(text);

/** Whether an access control entry names a user or group by text (field `who`, which filesystem.setacl of TS-24.10.2.4 does not have). */
const namesSomebody = (text: string): boolean =>
  (/:(?:allow|deny)$/i.test(text) ? nfs4Entry(text) : posixEntry(text)).who !== undefined;

/** User and group as fields of a request, which differ for numbers and names. */
const owner = ({ user, group }: Permissions): object => ({
  ...(user === undefined ? {} : isNumber(user) ? { uid: Number(user) } : { user }),
  ...(group === undefined ? {} : isNumber(group) ? { gid: Number(group) } : { group }),
});

/** Sets mode, owner and access control list of the top folder of a file system. The list comes last, because a mode replaces it. */
export async function permitted(api: Api, path: string, permissions: Permissions, signal: AbortSignal): Promise<void> {
  const { mode, user, group, acls } = permissions;
  const changes = acls.map(aclChange);
  const { number } = await api.version(signal);
  if (number < withNames && !(isNumber(user) && isNumber(group)))
    throw new ZfsError("invalid", "before TrueNAS 25.04 users and groups must be numbers");
  const name = changes.flatMap(({ entries }) => entries).find(number < withNames ? namesSomebody : () => false);
  if (name !== undefined)
    throw new ZfsError(
      "invalid",
      `before TrueNAS 25.04 the access control entry "${name}" must have a number, not a name`,
    );
  try {
    // An inherited list would prevent a mode.
    const bits = { path, mode, ...owner(permissions), options: { stripacl: true } };
    if (mode !== undefined) await api.job("filesystem.setperm", [bits], signal);
    else if (user !== undefined || group !== undefined)
      await api.job("filesystem.chown", [{ path, ...owner(permissions) }], signal);
    await prove(api, path, permissions, signal);
    if (changes.length > 0) await listed(api, path, changes, signal);
  } catch (error) {
    throw zfsError(error);
  }
}

/** Throws "busy" if the permissions are not set: the server may have answered with the job of another request. */
async function prove(api: Api, path: string, wanted: Permissions, signal: AbortSignal): Promise<void> {
  const { mode, user, group } = wanted;
  if (mode === undefined && user === undefined && group === undefined) return;
  const found = ((await api.call("filesystem.stat", [path], signal)) ?? {}) as Stat;
  const octal = (bits: number) => (bits & 0o7777).toString(8).padStart(4, "0");
  const differs = [
    ...(mode === undefined || octal(Number(found.mode)) === octal(Number.parseInt(mode, 8))
      ? []
      : [`mode ${octal(Number(found.mode))} instead of ${mode}`]),
    ...ownerDiffers("user", user, found.uid, found.user),
    ...ownerDiffers("group", group, found.gid, found.group),
  ];
  if (differs.length > 0)
    throw new ZfsError("busy", `${path} has ${differs.join(", ")} although the change was answered`);
}

/** The part of the answer of `filesystem.stat` that is compared; names are absent if the system has none. */
interface Stat {
  readonly mode?: unknown;
  readonly uid?: unknown;
  readonly gid?: unknown;
  readonly user?: unknown;
  readonly group?: unknown;
}

function ownerDiffers(what: string, wanted: string | undefined, id: unknown, name: unknown): readonly string[] {
  if (wanted === undefined) return [];
  const found = isNumber(wanted) ? id : name;
  return String(found) === wanted || (!isNumber(wanted) && typeof name !== "string")
    ? []
    : [`${what} ${found} instead of ${wanted}`];
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

import { completed } from "./facts/complete.ts";
import { CallError, Invalid } from "./failure.ts";
import { property } from "./properties.ts";
import type { Dataset, Nas } from "./state.ts";
import { existing } from "./zfs/datasets.ts";

/**
 * filesystem.*: mode, owner and lists of what is mounted (plugins/filesystem_/acl.py of TS-24.10.2.4 to TS-26.0.0-BETA.3, acl_linux.py of
 * TS-21.08-BETA.1 to TS-24.04.2.5; api/v25_04_0/filesystem.py of TS-25.04.2.6; plugins/filesystem.py, stat).
 */

/** What the rules read. */
interface Permissions {
  readonly path: string;
  readonly mode: string | null;
  readonly dacl: readonly Readonly<Record<string, unknown>>[];
  readonly options?: { readonly stripacl?: boolean };
}

/** Without set-id and sticky bits (UnixPerm in schema/string_schema.py of TS-24.10.2.4, api/base/types/filesystem.py of TS-25.10.6). */
const validMode = /^(?!0+$)0?[0-7]{3}$/;

/** What is mounted there (stat in plugins/filesystem.py of all versions). */
function mountedAt(nas: Nas, path: string): Dataset {
  const dataset = nas.state.datasets[path.replace(/^\/mnt\//, "")];
  if (path.startsWith("/mnt/") && dataset?.type === "FILESYSTEM") return dataset;
  throw new CallError("ENOENT", `Path ${path} not found`);
}

/** What may be changed there (_common_perm_path_validate; CORE: plugins/filesystem.py of TN-13.0-U6.3). */
function at(nas: Nas, path: string, method: string): Dataset {
  const dataset = mountedAt(nas, path);
  if (dataset.name.includes("/")) return dataset;
  if (nas.number < 2000)
    throw new CallError("EACCES", `Changing permissions of root level dataset is not permitted: ${path}`);
  throw new Invalid([`${method}.path`, `The specified path is a ZFS pool mountpoint "(${path})" `, 22]);
}

const known: Readonly<Record<string, number>> = { root: 0, nobody: 65534, csi: 3000, wheel: 0 };

/** The name of a user or group; null if the system has none for the number. */
const nameOf = (id: number): string | null => Object.entries(known).find(([, each]) => each === id)?.[0] ?? null;

/** Names come with 25.04; those that do not exist are refused before anything is changed, also with the path. */
function checkNames(method: string, { user, group }: Readonly<Record<string, unknown>>): void {
  const end = method === "filesystem.setacl" ? "." : "";
  for (const [kind, name] of Object.entries({ user, group }))
    if (typeof name === "string" && !(name in known))
      throw new Invalid([`${method}.${kind}`, `${name}: ${kind} does not exist${end}`, 22]);
}

function owned(dataset: Dataset, fields: Readonly<Record<string, unknown>>): void {
  const { uid, gid, user, group } = fields;
  if (typeof uid === "number") dataset.uid = uid;
  if (typeof gid === "number") dataset.gid = gid;
  if (typeof user === "string") dataset.uid = known[user] ?? dataset.uid;
  if (typeof group === "string") dataset.gid = known[group] ?? dataset.gid;
}

export function setperm(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Permissions>(nas, "filesystem.setperm", data);
  const mode = fields.mode ?? null;
  if (mode !== null && !validMode.test(mode))
    throw new Invalid(["filesystem_permission.mode", "Please supply a valid mode between 000 and 777", 22]);
  if (nas.number >= 2504 && mode === null && !fields.options?.stripacl)
    throw new Invalid(["filesystem_setperm", "Value error, neither permissions nor the stripacl option are given", 22]);
  checkNames("filesystem.setperm", { ...fields });
  const dataset = at(nas, fields.path, "filesystem.setperm");
  const listed = `Non-trivial ACL present on [${fields.path}]. Option "stripacl" required to change permission.`;
  if (dataset.acl !== undefined && !fields.options?.stripacl)
    throw new Invalid(["filesystem.setperm.mode", listed, 22]);
  delete dataset.acl;
  if (mode !== null) dataset.mode = Number.parseInt(mode, 8);
  owned(dataset, { ...fields });
  return null;
}

export function chown(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Permissions>(nas, "filesystem.chown", data);
  checkNames("filesystem.chown", { ...fields });
  owned(at(nas, fields.path, "filesystem.chown"), { ...fields });
  return null;
}

export function setacl(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Permissions>(nas, "filesystem.setacl", data);
  // Up to 24.10 users and groups are numbers (plugins/filesystem_/acl.py of TS-24.10.2.4).
  const named = nas.number < 2504 ? fields.dacl.findIndex(entry => "who" in entry) : -1;
  if (named >= 0) throw new Invalid([`filesystem_acl.dacl.${named}`, "Field was not expected", 22]);
  const dataset = at(nas, fields.path, "filesystem.setacl");
  checkNames("filesystem.setacl", { ...fields });
  if (fields.options?.stripacl) delete dataset.acl;
  else dataset.acl = fields.dacl;
  owned(dataset, { ...fields });
  return getacl(nas, [fields.path]);
}

const noPerms = Object.fromEntries(
  [
    ...["READ_DATA", "WRITE_DATA", "APPEND_DATA", "READ_NAMED_ATTRS", "WRITE_NAMED_ATTRS", "EXECUTE", "DELETE"],
    ...["DELETE_CHILD", "READ_ATTRIBUTES", "WRITE_ATTRIBUTES", "READ_ACL", "WRITE_ACL", "WRITE_OWNER", "SYNCHRONIZE"],
  ].map(name => [name, false]),
);

const bits = (mode: number) => ({ READ: (mode & 4) > 0, WRITE: (mode & 2) > 0, EXECUTE: (mode & 1) > 0 });

interface AclEntry {
  readonly flags?: Readonly<Record<string, unknown>>;
}

/** An answer has a flag that a request need not have (api/v25_04_0/acl.py, NFS4ACE_AdvancedFlags). */
const withInherited = (entry: AclEntry, nfs4: boolean): AclEntry =>
  nfs4 && entry.flags && !("BASIC" in entry.flags) ? { ...entry, flags: { INHERITED: false, ...entry.flags } } : entry;

/** The access control list, or one that corresponds to the permission bits. */
export function getacl(nas: Nas, [path]: readonly unknown[]): unknown {
  const { name, mode: all, uid, gid, acl } = mountedAt(nas, String(path));
  const nfs4 = property(nas, existing(nas, name), "acltype").raw === "nfsv4";
  const whose = [
    ["USER_OBJ", "owner@", all >> 6],
    ["GROUP_OBJ", "group@", all >> 3],
    ["OTHER", "everyone@", all],
  ] as const;
  const nobody = { id: -1, who: null };
  const trivial = whose.map(([tag, special, mode]) => {
    if (!nfs4) return { tag, default: false, perms: bits(mode), ...nobody };
    const { READ, WRITE, EXECUTE } = bits(mode);
    const perms = { ...noPerms, READ_DATA: READ, WRITE_DATA: WRITE, EXECUTE };
    return { tag: special, type: "ALLOW", perms, flags: { BASIC: "NOINHERIT" }, ...nobody };
  });
  const list = Array.isArray(acl)
    ? acl.map(each => ({ ...nobody, ...withInherited(each as AclEntry, nfs4) }))
    : trivial;
  const flags = { autoinherit: false, protected: false, defaulted: false };
  const base = { path, uid, gid, trivial: acl === undefined, acltype: nfs4 ? "NFS4" : "POSIX1E" };
  if (nas.number >= 2504)
    return { ...base, user: nameOf(uid), group: nameOf(gid), acl: list, ...(nfs4 ? { aclflags: flags } : {}) };
  // Up to 24.10 there are no names, because csimux does not ask for them (getacl_nfs4 and getacl_posix1e in plugins/filesystem_/acl.py of TS-24.10.2.4).
  const unnamed = list.map(({ who: _, ...entry }) => entry);
  return {
    ...base,
    acl: unnamed,
    ...(nfs4 ? { nfs41_flags: flags } : { flags: { setuid: false, setgid: false, sticky: false } }),
  };
}

export function stat(nas: Nas, [path]: readonly unknown[]): unknown {
  const dataset = nas.state.datasets[String(path).replace(/^\/mnt\//, "")];
  if (!dataset) throw new CallError("ENOENT", `Path ${path} not found`);
  const { mode: bits, uid, gid, acl } = dataset;
  const times = { atime: 1, mtime: 1, ctime: 1, btime: 1 };
  const numbers = { size: 3, allocation_size: 512, dev: 42, mount_id: 42, inode: 34, nlink: 2 };
  return {
    realpath: path,
    ...(nas.number >= 2504 ? { type: "DIRECTORY" } : {}),
    mode: bits | 0o40000,
    ...{ uid, gid, user: nameOf(uid), group: nameOf(gid) },
    ...{ ...times, ...numbers, attributes: [], is_ctldir: false },
    acl: acl !== undefined,
    is_mountpoint: true,
  };
}

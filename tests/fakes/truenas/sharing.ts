import * as v from "valibot";
import { Invalid, type Triple } from "./failure.ts";
import { flag, maybe, modelled, modelledOld, or, text, texts } from "./models.ts";
import { networksOf } from "./networks.ts";
import { type QueryOptions, queried } from "./query.ts";
import { inserted, type Nas, placeOf, type Row, removed, type TableName } from "./state.ts";

/**
 * sharing.nfs.* and sharing.smb.*: plugins/nfs.py and smb.py of TN-12.0-U8.1 to TS-25.10.6; api/v25_10_0/nfs.py and smb.py. assumed: from
 * 22.12 on two NFS shares of one path that name neither hosts nor networks are both made.
 */

const nfsCommon = {
  comment: or(text, ""),
  networks: texts,
  hosts: texts,
  ro: or(flag, false),
  maproot_user: maybe(text),
  maproot_group: maybe(text),
  mapall_user: maybe(text),
  mapall_group: maybe(text),
  security: v.optional(v.array(v.picklist(["SYS", "KRB5", "KRB5I", "KRB5P"])), []),
  enabled: or(flag, true),
};
const nfsOld = v.strictObject({
  ...nfsCommon,
  paths: v.pipe(v.array(text), v.minLength(1)),
  alldirs: or(flag, false),
  quiet: or(flag, false),
});
const nfs2310 = v.strictObject({ ...nfsCommon, path: text, aliases: texts });
const nfsNew = v.strictObject({ ...nfs2310.entries, expose_snapshots: or(flag, false) });
/** One path from 22.12 on, and no "quiet" from 23.10 on (plugins/nfs.py of TS-22.02.4, TS-22.12.4.2 and TS-23.10.2). */
const nfs2212 = v.strictObject({ ...nfsCommon, path: text, aliases: texts, quiet: or(flag, false) });

const nfsOf = ({ number }: Nas) => (number < 2310 ? nfs2212 : number < 2504 ? nfs2310 : nfsNew);

type Problems = (row: Row) => Triple | undefined;

/**
 * Up to 22.02 a share without hosts and networks conflicts with any other share of the dataset (validate_hosts_and_networks in plugins/nfs.py of
 * TN-12.0-U8.1 to TS-22.02.4).
 */
function nfsConflict(
  nas: Nas,
  path: string,
  fields: { readonly networks: readonly string[]; readonly hosts: readonly string[] },
): Problems {
  return row => {
    if ((row["path"] ?? (row["paths"] as readonly string[])[0]) !== path) return undefined;
    const network = fields.networks.find(each => (row["networks"] as readonly string[]).includes(each));
    const host = fields.hosts.find(each => (row["hosts"] as readonly string[]).includes(each));
    const used = network ?? host;
    const forAll = fields.hosts.length === 0 && fields.networks.length === 0;
    if (nas.number < 2212 && forAll)
      return ["sharingnfs_create.networks", "Another NFS share already exports this dataset for some network", 22];
    if (used === undefined) return undefined;
    const kind = network === undefined ? "hosts" : "networks";
    return [`sharingnfs_create.${kind}`, `ERROR - Another NFS share already exports ${path} for network ${used}`, 22];
  };
}

function refuse(nas: Nas, table: TableName, problem: Problems): void {
  const found = nas.state.tables[table].map(problem).filter(each => each !== undefined);
  if (found[0]) throw new Invalid(found[0]);
}

const mounted = (nas: Nas, path: string): boolean =>
  nas.elsewhere?.has(path.replace(/^\/mnt\//, "").replace(/^\//, "")) ??
  (path.startsWith("/mnt/") && nas.state.datasets[path.slice("/mnt/".length)]?.type === "FILESYSTEM");

export function createNfs(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = nas.number < 2212 ? modelled(nfsOld, data, "data") : modelled(nfsOf(nas), data, "data");
  const path = "paths" in fields ? (fields.paths[0] ?? "") : fields.path;
  const attribute = "paths" in fields ? "sharingnfs_create.paths" : "sharingnfs_create.path";
  if (!mounted(nas, path)) throw new Invalid([attribute, `${path} does not exist`, 2]);
  if (fields.maproot_user && fields.mapall_user)
    throw new Invalid(["sharingnfs_create.mapall_user", "conflicts with maproot_user", 22]);
  checkMapping(fields);
  const networks = networksOf(nas, fields.networks);
  refuse(nas, "nfs", nfsConflict(nas, path, { ...fields, networks }));
  const place = placeOf(nas, path.slice("/mnt/".length));
  return inserted(nas, "nfs", { ...fields, networks, locked: false, ...place, ...tierOf(nas) });
}

const tierOf = ({ number }: Nas): object => (number >= 2600 ? { tier: null } : {});

const users = new Set(["root", "csi", "guest"]);
const groups = new Set([...users, "wheel", "nogroup"]);

/** The users and groups of a share (validate() in plugins/nfs.py of TS-24.10.2.4 to TS-26.0.0-BETA.3). */
function checkMapping(fields: Readonly<Record<string, unknown>>): void {
  for (const kind of ["maproot", "mapall"]) {
    const [user, group] = [fields[`${kind}_user`], fields[`${kind}_group`]];
    if (group && !user)
      throw new Invalid([`sharingnfs_create.${kind}_user`, "This field is required when map group is specified", 22]);
    if (user && !users.has(String(user)))
      throw new Invalid([`sharingnfs_create.${kind}_user`, `User not found: ${user}`, 2]);
    if (group && !groups.has(String(group)))
      throw new Invalid([`sharingnfs_create.${kind}_group`, `Group not found: ${group}`, 2]);
  }
}

const badName = /[%<>*?|/\\+=;:",[\]]/;
const reserved = new Set(["global", "printers", "homes", "admin$", "ipc$"]);

const smbFlat = {
  name: text,
  path: text,
  purpose: or(text, "DEFAULT_SHARE"),
  path_suffix: or(text, ""),
  home: or(flag, false),
  comment: or(text, ""),
  ro: or(flag, false),
  browsable: or(flag, true),
  timemachine: or(flag, false),
  recyclebin: or(flag, false),
  guestok: or(flag, false),
  abe: or(flag, false),
  hostsallow: texts,
  hostsdeny: texts,
  auxsmbconf: or(v.string(), ""),
  enabled: or(flag, true),
  acl: or(flag, true),
};
/** plugins/smb.py, sharingsmb_create, of TN-12.0-U8.1, TN-13.0-U6.3, TS-22.02.4, TS-23.10.2, TS-24.10.2.4 and TS-25.04.2.6. */
const smbBefore2510 = v.strictObject(smbFlat);
const legacyOptions = v.strictObject({
  purpose: or(v.literal("LEGACY_SHARE"), "LEGACY_SHARE"),
  recyclebin: or(flag, false),
  path_suffix: maybe(text),
  hostsallow: texts,
  hostsdeny: texts,
  guestok: or(flag, false),
  streams: or(flag, true),
  durablehandle: or(flag, true),
  shadowcopy: or(flag, true),
  fsrvp: or(flag, false),
  home: or(flag, false),
  acl: or(flag, true),
  afp: or(flag, false),
  timemachine: or(flag, false),
  timemachine_quota: or(v.number(), 0),
  aapl_name_mangling: or(flag, false),
  vuid: maybe(text),
  auxsmbconf: or(v.string(), ""),
});
const smbTop = {
  purpose: or(
    v.picklist(["DEFAULT_SHARE", "LEGACY_SHARE", "TIMEMACHINE_SHARE", "MULTIPROTOCOL_SHARE", "PRIVATE_DATASETS_SHARE"]),
    "DEFAULT_SHARE",
  ),
  name: text,
  path: text,
  enabled: or(flag, true),
  comment: or(text, ""),
  readonly: or(flag, false),
  browsable: or(flag, true),
  access_based_share_enumeration: or(flag, false),
  audit: v.optional(v.looseObject({})),
  options: v.optional(v.nullable(v.looseObject({}))),
};
/** Fields of older versions are taken and ignored. */
const smbNew = v.strictObject({
  ...smbTop,
  guestok: v.optional(flag),
  hostsallow: v.optional(texts),
  hostsdeny: v.optional(texts),
  recyclebin: v.optional(flag),
  home: v.optional(flag),
  timemachine: v.optional(flag),
  auxsmbconf: v.optional(v.string()),
});

function smbFields(
  nas: Nas,
  data: unknown,
): { readonly name: string; readonly path: string; readonly options?: object | undefined } {
  if (nas.number < 2510) return modelledOld(nas, smbBefore2510, data, "sharingsmb_create");
  const { options, ...fields } = modelled(smbNew, data, "data");
  const kept = Object.fromEntries(Object.entries(fields).filter(([key]) => key in smbTop)) as typeof fields;
  const checked =
    fields.purpose === "LEGACY_SHARE" ? modelled(legacyOptions, options ?? {}, "data.options.LEGACY_SHARE") : options;
  return { ...kept, ...(checked ? { options: { ...checked, purpose: fields.purpose } } : {}) };
}

/** What an option of a share asks for besides (do_create and validate() in plugins/smb.py of TS-24.10.2.4 to TS-26.0.0-BETA.3). */
function checkSmbOptions(nas: Nas, fields: Readonly<Record<string, unknown>>): void {
  const { auxsmbconf, home } = fields;
  const restricted =
    "Changes to auxiliary parameters for SMB shares are restricted to users with full administrative privileges.";
  if (auxsmbconf && nas.number >= 2410 && !nas.fullAdmin)
    throw new Invalid(["sharingsmb_create.auxsmbconf", restricted, 22]);
  const isHome = (row: Row): boolean => row["home"] === true || (row["options"] as Row | undefined)?.["home"] === true;
  if (home === true && nas.state.tables.smb.some(isHome))
    throw new Invalid(["sharingsmb_create.home", "Only one share is allowed to be a home share.", 22]);
}

export function createSmb(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = smbFields(nas, data);
  const { name, path } = fields;
  if (badName.test(name) || name.length > 80 || name === "" || reserved.has(name.toLowerCase()))
    throw new Invalid(["sharingsmb_create.name", "Share name is not valid", 22]);
  checkSmbOptions(nas, { ...fields, ...fields.options } as Readonly<Record<string, unknown>>);
  if (!mounted(nas, path)) throw new Invalid(["sharingsmb_create.path", `${path} does not exist`, 2]);
  refuse(nas, "smb", row =>
    String(row["name"]).toLowerCase() === name.toLowerCase()
      ? // A number of its own from 24.04 on (plugins/smb.py of TS-23.10.2 and TS-24.04.2.5).
        ["sharingsmb_create.name", "Share with this name already exists.", nas.number >= 2404 ? 17 : 22]
      : undefined,
  );
  return inserted(nas, "smb", {
    ...fields,
    locked: false,
    ...placeOf(nas, path.slice("/mnt/".length)),
    ...tierOf(nas),
  });
}

/** `…query` of a table. */
export const rowsOf =
  (table: TableName) =>
  (nas: Nas, [filters, options]: readonly unknown[]): unknown =>
    queried(nas.state.tables[table], filters, (options ?? {}) as QueryOptions);

/** The row with this id; throws the error of get_instance. */
export function rowOf(nas: Nas, table: TableName, what: string, id: unknown): Row {
  if (typeof id !== "number") throw new Invalid(["id", "Input should be a valid integer", 22]);
  const row = nas.state.tables[table].find(each => each.id === id);
  if (row) return row;
  throw new Invalid([null, `${what} ${id} does not exist`, 2]);
}

/** `…delete` of a table without further rules. */
export const deletedFrom =
  (table: TableName, what: string) =>
  (nas: Nas, [id]: readonly unknown[]): unknown => {
    const row = rowOf(nas, table, what, id);
    removed(nas, table, each => each.id === row.id);
    return true;
  };

/** `…update` of a table: any field that the row has. */
export const updatedIn =
  (table: TableName, what: string) =>
  (nas: Nas, [id, data]: readonly unknown[]): unknown => {
    const row = rowOf(nas, table, what, id);
    for (const key of Object.keys(data as object)) {
      if (!(key in row)) throw new Invalid([`data.${key}`, "Extra inputs are not permitted", 22]);
    }
    return Object.assign(row, data);
  };

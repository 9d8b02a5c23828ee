import { completed, wholeRow } from "./facts/complete.ts";
import { Invalid, type Triple } from "./failure.ts";
import { areOverlapping, networksOf } from "./networks.ts";
import { type QueryOptions, queried } from "./query.ts";
import { inserted, type Nas, placeOf, type Row, removed, type TableName } from "./state.ts";

/**
 * sharing.nfs.* and sharing.smb.*: plugins/nfs.py and smb.py of TN-12.0-U8.1 to TS-26.0.0-BETA.3; api/v25_10_0/nfs.py and smb.py.
 */

type Problems = (row: Row) => Triple | undefined;

/** Whom a share is for; without hosts and networks it is for everybody. */
interface Clients {
  readonly networks: readonly string[];
  readonly hosts: readonly string[];
}

const isForAll = ({ hosts, networks }: Clients): boolean => hosts.length === 0 && networks.length === 0;

/**
 * When two shares of one path conflict (validate_hosts_and_networks and validate_share_path in plugins/nfs.py of TN-12.0-U8.1 to
 * TS-26.0.0-BETA.3): if both name a host or a network. Up to 22.02 a share for everybody conflicts with each other one; on 22.12 only with
 * another for everybody; on 23.10 and 24.04 again with each; from 24.10 on with one that names networks and comes later.
 */
function nfsConflict(nas: Nas, path: string, fields: Clients): Problems {
  const at = (field: string, why: string): Triple => [`sharingnfs_create.${field}`, why, 22];
  return row => {
    if ((row["path"] ?? (row["paths"] as readonly string[])[0]) !== path) return undefined;
    const other: Clients = {
      networks: (row["networks"] as readonly string[] | undefined) ?? [],
      hosts: (row["hosts"] as readonly string[] | undefined) ?? [],
    };
    const network = fields.networks.find(each => other.networks.some(one => areOverlapping(nas, each, one)));
    if (network !== undefined)
      return at("networks", `ERROR - Another NFS share already exports ${path} for network ${network}`);
    const host = fields.hosts.find(each => other.hosts.includes(each));
    if (host !== undefined) return at("hosts", `ERROR - Another NFS share already exports ${path} for host ${host}`);
    const [mine, theirs] = [isForAll(fields), isForAll(other)];
    if (nas.number < 2212 && mine)
      return at("networks", "Another NFS share already exports this dataset for some network");
    if (nas.number >= 2212 && nas.number < 2310 && mine && theirs)
      return at("path", `${path} is a subtree of ${path} and already exports this dataset for 'everybody', i.e. '*'`);
    if (nas.number >= 2310 && nas.number < 2410 && (mine || theirs))
      return at(
        "path",
        `ERROR - Export conflict. Another share with the same path exports ${path} for 'everybody', i.e. '*'`,
      );
    if (nas.number >= 2410 && theirs && fields.networks.length > 0)
      return at("networks", `ERROR - This or another NFS share exports ${path} to 0.0.0.0/0 and overlaps network`);
    return undefined;
  };
}

function refuse(nas: Nas, table: TableName, problem: Problems): void {
  const found = nas.state.tables[table].map(problem).filter(each => each !== undefined);
  if (found[0]) throw new Invalid(found[0]);
}

const mounted = (nas: Nas, path: string): boolean =>
  nas.elsewhere?.has(path.replace(/^\/mnt\//, "").replace(/^\//, "")) ??
  (path.startsWith("/mnt/") && nas.state.datasets[path.slice("/mnt/".length)]?.type === "FILESYSTEM");

/** What the rules for shares of NFS read. */
interface Exported {
  readonly path?: string;
  readonly paths?: readonly string[];
  readonly networks: readonly string[];
  readonly hosts: readonly string[];
  readonly maproot_user: string | null;
  readonly mapall_user: string | null;
}

export function createNfs(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Exported>(nas, "sharing.nfs.create", data);
  const path = fields.path ?? fields.paths?.[0] ?? "";
  const attribute = `sharingnfs_create.${fields.path === undefined ? "paths" : "path"}`;
  if (!mounted(nas, path)) throw new Invalid([attribute, `${path} does not exist`, 2]);
  if (fields.maproot_user && fields.mapall_user)
    throw new Invalid(["sharingnfs_create.mapall_user", "conflicts with maproot_user", 22]);
  checkMapping({ ...fields });
  // Each list has at most 42 entries (middleware PR 15442 for 25.04, words of pydantic 2.10).
  for (const list of ["hosts", "networks"] as const)
    if (nas.number >= 2504 && fields[list].length > 42)
      throw new Invalid([
        `sharingnfs_create.${list}`,
        `List should have at most 42 items after validation, not ${fields[list].length}`,
        22,
      ]);
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

/** What the rules for shares of SMB read. */
interface Shared {
  readonly name: string;
  readonly path: string;
  readonly purpose: string;
  readonly options?: object | null;
}

/** SMBSharePurpose in utils/smb.py of TS-25.10.6 and TS-26.0.0-BETA.3. */
const purposes = [
  ...["DEFAULT_SHARE", "LEGACY_SHARE", "TIMEMACHINE_SHARE", "MULTIPROTOCOL_SHARE", "TIME_LOCKED_SHARE"],
  ...["PRIVATE_DATASETS_SHARE", "EXTERNAL_SHARE", "VEEAM_REPOSITORY_SHARE", "FCP_SHARE"],
];

/** From 25.10 on the purpose of a share decides which options it has (SmbShareCreate in api/v25_10_0/smb.py of TS-25.10.6). */
function smbFields(nas: Nas, data: unknown): Shared {
  const fields = completed<Shared>(nas, "sharing.smb.create", data);
  if (nas.number < 2510) return fields;
  const { purpose } = fields;
  if (!purposes.includes(purpose)) throw new Invalid(["data.purpose", "Input is not a purpose", 22]);
  const { options } = data as Partial<Shared>;
  if (!options) return fields;
  return completed(nas, "sharing.smb.create", { ...(data as object), options: { ...options, purpose } });
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
  checkTimeMachine(nas, fields);
}

/**
 * What a share for Apple's Time Machine needs (validate() in plugins/smb.py of TS-22.02.4 to TS-26.0.0-BETA.3). A new system announces itself by mDNS, and
 * has no extensions for Apple (gc_service_announcement in plugins/network_/global_config.py, cifs_srv_aapl_extensions in smb.py). CORE
 * switches these on by itself (check_aapl in smb.py of TN-13.0-U6.3).
 */
function checkTimeMachine(nas: Nas, { timemachine, purpose, enabled }: Readonly<Record<string, unknown>>): void {
  if (nas.number < 2000 || (timemachine !== true && purpose !== "TIMEMACHINE_SHARE")) return;
  const { mdns, aapl_extensions } = nas.state.settings;
  const at = `sharingsmb_create.${nas.number < 2510 ? "timemachine" : "purpose"}`;
  const unannounced = "mDNS must be enabled in order to use an SMB share as a time machine target.";
  const plain =
    "Apple SMB2/3 protocol extension support is required by this parameter. This feature may be enabled in the general SMB server configuration.";
  const wrong: readonly Triple[] = [
    ...(enabled !== false && !mdns ? [[at, unannounced, 22] as const] : []),
    ...(aapl_extensions ? [] : [[at, plain, 22] as const]),
  ];
  if (wrong.length > 0) throw new Invalid(...wrong);
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
  (table: TableName, method: string) =>
  (nas: Nas, [filters, options]: readonly unknown[]): unknown =>
    queried(
      nas.state.tables[table].map(row => wholeRow(nas, method, row)),
      filters,
      (options ?? {}) as QueryOptions,
    );

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

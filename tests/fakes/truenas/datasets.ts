import * as v from "valibot";
import { CallError, ezfsBusy, Invalid } from "./failure.ts";
import { flag, modelled, modelledOld, or, text, whole } from "./models.ts";
import { mountpoint, propertiesOf, property, shown, userProperties } from "./properties.ts";
import { type QueryOptions, queried } from "./query.ts";
import { type Dataset, type Nas, nextTxg, removed, type Snapshot } from "./state.ts";

/**
 * pool.dataset.*: the API's older way to datasets. Paths are below src/middlewared/middlewared of truenas/middleware, as everywhere here.
 * Fields and their values: plugins/pool_/dataset.py of TS-24.10.2.4 and TS-25.04.2.6, api/v25_10_0/pool_dataset.py of TS-25.10.6.
 */

const onOff = v.optional(v.picklist(["ON", "OFF", "INHERIT"]));
const least = 1024 ** 3;
const quota = v.optional(
  v.nullable(
    v.pipe(
      whole,
      v.check(n => n === 0 || n >= least, "Input should be 0 or at least 1 GiB"),
    ),
  ),
);
const size = v.optional(v.nullable(v.pipe(whole, v.minValue(0))));
const compression =
  /^(?:ON|OFF|LZ4|GZIP(?:-[19])?|ZSTD(?:-[0-9]+)?|ZSTD-FAST(?:-[0-9]+)?|ZLE|LZJB|INHERIT|GZIP-[1-9])$/;

const common = {
  comments: v.optional(text),
  managedby: v.optional(text),
  sync: v.optional(v.picklist(["STANDARD", "ALWAYS", "DISABLED", "INHERIT"])),
  snapdev: v.optional(v.picklist(["HIDDEN", "VISIBLE", "INHERIT"])),
  compression: v.optional(v.pipe(v.string(), v.regex(compression, "Input is not a compression"))),
  exec: onOff,
  reservation: size,
  refreservation: size,
  special_small_block_size: v.optional(v.union([whole, v.literal("INHERIT")])),
  copies: v.optional(v.union([whole, v.literal("INHERIT")])),
  snapdir: v.optional(v.picklist(["DISABLED", "VISIBLE", "HIDDEN", "INHERIT"])),
  deduplication: v.optional(v.picklist(["ON", "OFF", "VERIFY", "INHERIT"])),
  checksum: v.optional(v.pipe(v.string(), v.regex(/^[A-Z0-9]+$/, "Input is not a checksum"))),
  readonly: onOff,
};
const ofFilesystem = {
  aclmode: v.optional(v.picklist(["PASSTHROUGH", "RESTRICTED", "DISCARD", "INHERIT"])),
  acltype: v.optional(v.picklist(["OFF", "NFSV4", "POSIX", "INHERIT"])),
  atime: onOff,
  quota,
  refquota: quota,
  recordsize: v.optional(v.pipe(v.string(), v.regex(/^(?:[0-9]+[KM]?|INHERIT)$/))),
};
const atCreation = {
  name: v.pipe(v.string(), v.minLength(1)),
  encryption: or(flag, false),
  inherit_encryption: or(flag, true),
  encryption_options: v.optional(v.strictObject({ generate_key: or(flag, false), algorithm: v.optional(text) })),
  create_ancestors: or(flag, false),
  share_type: or(v.picklist(["GENERIC", "MULTIPROTOCOL", "NFS", "SMB", "APPS"]), "GENERIC"),
  user_properties: v.optional(v.array(v.strictObject({ key: v.string(), value: v.string() })), []),
};
const blockSize = v.optional(v.picklist(["512", "512B", "1K", "2K", "4K", "8K", "16K", "32K", "64K", "128K"]));
const filesystemModel = v.strictObject({
  ...atCreation,
  ...common,
  ...ofFilesystem,
  type: or(v.literal("FILESYSTEM"), "FILESYSTEM"),
  casesensitivity: v.optional(v.picklist(["SENSITIVE", "INSENSITIVE", "INHERIT"])),
});
const volumeModel = v.strictObject({
  ...atCreation,
  ...common,
  type: v.literal("VOLUME"),
  volsize: whole,
  volblocksize: blockSize,
  sparse: or(flag, false),
  force_size: or(flag, false),
});
/**
 * The first version that knows a field, where not all do: CORE has no user properties and makes no ancestors (plugins/pool.py of
 * TN-12.0-U8.1, TN-13.0-U6.3, TS-21.08-BETA.1, TS-22.02.4 and TS-22.12.4.2).
 */
const fieldsSince: Readonly<Record<string, number>> = {
  user_properties: 2108,
  user_properties_update: 2108,
  create_ancestors: 2108,
  snapdev: 2212,
};
/** CORE has other words for access control lists (plugins/pool.py of TN-13.0-U6.3). */
const coreAcl = {
  aclmode: v.optional(v.picklist(["PASSTHROUGH", "RESTRICTED"])),
  acltype: v.optional(v.picklist(["NOACL", "NFS4ACL", "POSIXACL"])),
};

const change = v.strictObject({ key: v.string(), value: v.optional(v.string()), remove: v.optional(flag) });
const updateModel = v.strictObject({
  ...common,
  ...ofFilesystem,
  volsize: v.optional(whole),
  force_size: or(flag, false),
  user_properties_update: v.optional(v.array(change), []),
});

type Creation = v.InferOutput<typeof filesystemModel> | v.InferOutput<typeof volumeModel>;

/** A model with the fields that the version knows; up to 25.04 it is of the older kind. Absent fields are absent in what it answers. */
function fitting<S extends v.StrictObjectSchema<v.ObjectEntries, undefined>>(
  nas: Nas,
  model: S,
  data: unknown,
  prefix: readonly [old: string, current: string],
): v.InferOutput<S> {
  if (nas.number >= 2510) return modelled(model, data, prefix[1]);
  const known = Object.entries(model.entries).filter(([key]) => nas.number >= (fieldsSince[key] ?? 0));
  const acl = nas.number < 2000 && "acltype" in model.entries ? coreAcl : {};
  const fields: object = modelledOld(nas, v.strictObject({ ...Object.fromEntries(known), ...acl }), data, prefix[0]);
  return fields as v.InferOutput<S>;
}

/** The fields of a creation, as the version takes them. */
function creationOf(nas: Nas, data: unknown, prefix: string): Creation {
  const model = (data as { readonly type?: unknown } | undefined)?.type === "VOLUME" ? volumeModel : filesystemModel;
  return {
    ...none,
    ...fitting<typeof volumeModel | typeof filesystemModel>(nas, model, data, ["pool_dataset_create", prefix]),
  };
}

/** What a version without these fields does. */
const none = { create_ancestors: false, user_properties: [], user_properties_update: [] };

/** The fields of a change, as the version takes them. */
const changeOf = (nas: Nas, data: unknown): v.InferOutput<typeof updateModel> => ({
  ...none,
  ...fitting(nas, updateModel, data, ["pool_dataset_update", "data"]),
});

const owned =
  /^org\.freenas:(?:description|quota_warning|quota_critical|refquota_warning|refquota_critical)$|^org\.truenas:managedby$/;
const zfsNames: Readonly<Record<string, string>> = {
  deduplication: "dedup",
  special_small_block_size: "special_small_blocks",
};
const apiNames: Readonly<Record<string, string>> = {
  dedup: "deduplication",
  special_small_blocks: "special_small_block_size",
  encryption: "encryption_algorithm",
};

const bytesOf = (value: string): string => {
  const match = /^([0-9]+)([KM]?)B?$/.exec(value);
  return match ? String(Number(match[1]) * (match[2] === "K" ? 1024 : match[2] === "M" ? 1024 ** 2 : 1)) : value;
};

/** The native properties of a request, as ZFS names them. */
function nativeOf(fields: Readonly<Record<string, unknown>>): Record<string, string> {
  const result: Record<string, string> = {};
  for (const key of [
    ...Object.keys(common),
    ...Object.keys(ofFilesystem),
    "casesensitivity",
    "volsize",
    "volblocksize",
  ]) {
    const value = fields[key];
    if (value === undefined || key === "comments" || key === "managedby") continue;
    const raw = value === null ? "0" : String(value);
    const sized = key === "recordsize" || key === "volblocksize";
    result[zfsNames[key] ?? key] = sized ? bytesOf(raw) : raw.toLowerCase();
  }
  return result;
}

function userOf(nas: Nas, list: readonly { key: string; value?: string | undefined }[], prefix: string) {
  for (const [index, { key, value = "" }] of list.entries()) {
    const at = `${prefix}.user_properties.${index}`;
    if (!key.includes(":")) throw new Invalid([`${at}.key`, "User property needs a colon", 22]);
    if (value.length > 1024) throw new Invalid([`${at}.value`, "String should have at most 1024 characters", 22]);
    if (nas.number < 2600) continue;
    if (!/^[a-z0-9:._-]{1,255}$/.test(key)) throw new Invalid([`${at}.key`, "Value error, invalid key", 22]);
    if (owned.test(key)) throw new Invalid([`${at}.key`, `Value error, ${key} belongs to TrueNAS`, 22]);
  }
  return Object.fromEntries(list.map(({ key, value = "" }) => [key, value]));
}

/** The dataset of this name; throws the error of get_instance. */
export function existing(nas: Nas, name: string, attribute: string | null = null): Dataset {
  const dataset = nas.state.datasets[name];
  if (dataset) return dataset;
  throw new Invalid([
    attribute,
    attribute === null ? `PoolDataset ${name} does not exist` : `${name} does not exist`,
    2,
  ]);
}

/** A dataset as ZFS makes it, put into the state. */
export function made(nas: Nas, name: string, type: Dataset["type"], more: Partial<Dataset> = {}): Dataset {
  const txg = nextTxg(nas);
  const creation = nas.now();
  const fresh = { native: {}, user: {}, guid: String(10_000 + txg), createtxg: txg, creation };
  const dataset: Dataset = { name, type, ...fresh, mode: 0o755, uid: 0, gid: 0, ...more };
  nas.state.datasets[name] = dataset;
  return dataset;
}

const parentOf = (name: string): string => name.slice(0, Math.max(0, name.lastIndexOf("/")));

/**
 * __common_validation and do_create in plugins/pool_/dataset.py of TS-24.10.2.4 to TS-25.10.6. assumed: the words about a volume as
 * parent.
 */
function checkPlace(nas: Nas, name: string, type: Dataset["type"], ancestors: boolean): void {
  const attribute = "pool_dataset_create.name";
  const pool = name.split("/")[0] ?? "";
  if (!/^[A-Za-z0-9][A-Za-z0-9_.:-]*(?:\/[A-Za-z0-9_.: -]+)+$/.test(name) || name.length > 200)
    throw new Invalid([attribute, "Invalid dataset name", 22]);
  if (!(pool in nas.state.pools)) throw new Invalid([attribute, `zpool (${pool}) does not exist.`, 2]);
  const parent = nas.state.datasets[parentOf(name)];
  if (!parent && !ancestors) throw new Invalid([attribute, `Parent dataset (${parentOf(name)}) does not exist.`, 2]);
  const above = parent ?? nearest(nas, name);
  // From 22.02 on (plugins/pool.py of TS-21.08-BETA.1 and TS-22.02.4).
  if (nas.number >= 2202 && above && property(nas, above, "readonly").raw === "on")
    throw new Invalid([
      "pool_dataset_create.readonly",
      `Turn off readonly mode on ${above.name} to create ${pool}`,
      22,
    ]);
  if (parent?.type === "VOLUME") throw new Invalid([attribute, "Parent dataset must be a filesystem", 22]);
  if (!nas.state.datasets[name]) return;
  if (type === "FILESYSTEM") throw new Invalid([attribute, `Path /mnt/${name} already exists`, 22]);
  throw new CallError("EFAULT", `Failed to create dataset: cannot create '${name}': dataset already exists`);
}

/** The nearest dataset above a name that is there. */
function nearest(nas: Nas, name: string): Dataset | undefined {
  const above = parentOf(name);
  return above === "" ? undefined : (nas.state.datasets[above] ?? nearest(nas, above));
}

/**
 * Access control lists and how chmod(2) treats them must fit together, whether they are given or inherited (__common_validation in
 * plugins/pool_/dataset.py of TS-23.10.2 to TS-25.10.6). Up to 22.12 both may be inherited as they are, and NFSv4 goes with DISCARD
 * (plugins/pool.py of TS-21.08-BETA.1 to TS-22.12.4.2); CORE checks nothing.
 */
function checkAcl(
  nas: Nas,
  parent: Dataset | undefined,
  fields: Readonly<Record<string, unknown>>,
  prefix: string,
): void {
  if (nas.number < 2000) return;
  const inherits = ["acltype", "aclmode"].every(key => String(fields[key] ?? "INHERIT") === "INHERIT");
  if (nas.number < 2310 && inherits) return;
  const [type, mode] = ["acltype", "aclmode"].map(key => {
    const given = String(fields[key] ?? "INHERIT").toLowerCase();
    return given !== "inherit" || !parent ? given : property(nas, parent, key).raw;
  });
  const at = `${prefix}.aclmode`;
  if ((type === "posix" || type === "off") && mode !== "discard")
    throw new Invalid([at, "Must be set to DISCARD when acltype is POSIX or OFF", 22]);
  if (nas.number >= 2310 && type === "nfsv4" && mode === "discard")
    throw new Invalid([at, "DISCARD aclmode may not be set for NFSv4 acl type", 22]);
}

/**
 * The same place. assumed: the free space of the pool is compared, where the server compares that of the parent dataset; a quota above a
 * volume is not seen.
 */
function checkVolume(nas: Nas, name: string, fields: v.InferOutput<typeof volumeModel>): void {
  const block = Number(bytesOf(fields.volblocksize ?? "16K"));
  const attribute = "pool_dataset_create.volsize";
  if (fields.volsize % block !== 0)
    throw new Invalid([attribute, "Volume size must be a multiple of the block size", 22]);
  const pool = existing(nas, name.split("/")[0] ?? "");
  const free = Number(property(nas, pool, "available").raw);
  if (fields.volsize > free && !fields.sparse)
    throw new CallError("EFAULT", `Failed to create dataset: cannot create '${name}': out of space`);
  if (fields.volsize > free * 0.8 && !fields.force_size) throw new Invalid([attribute, tooMuch, 22]);
}

const tooMuch = "It is not recommended to use more than 80% of your available space for VOLUME";

export function create(nas: Nas, [data]: readonly unknown[]): unknown {
  const type = (data as { type?: unknown } | undefined)?.type === "VOLUME" ? "VOLUME" : "FILESYSTEM";
  const prefix = nas.number >= 2600 ? `data.${type}` : "data";
  const fields = creationOf(nas, data, prefix);
  const user = userOf(nas, fields.user_properties, prefix);
  checkPlace(nas, fields.name, type, fields.create_ancestors);
  if (fields.type === "VOLUME") checkVolume(nas, fields.name, fields);
  else if (fields.share_type !== "SMB") checkAcl(nas, nearest(nas, fields.name), fields, "pool_dataset_create");
  const missing = fields.name.split("/").map((_, n, all) => all.slice(0, n + 1).join("/"));
  for (const name of missing.slice(0, -1)) if (!nas.state.datasets[name]) made(nas, name, "FILESYSTEM");
  const native = nativeOf(fields);
  if (fields.share_type === "SMB")
    Object.assign(native, { casesensitivity: "insensitive", acltype: "nfsv4", aclmode: "restricted" });
  const { algorithm } = fields.encryption_options ?? {};
  if (nas.number >= 2600 && algorithm !== undefined)
    throw new Invalid([`${prefix}.encryption_options.algorithm`, "Extra inputs are not permitted", 22]);
  if (fields.encryption) native["encryption"] = (algorithm ?? "AES-256-GCM").toLowerCase();
  if (fields.type === "VOLUME" && !fields.sparse) native["refreservation"] ??= native["volsize"] ?? "0";
  if (fields.comments !== undefined) user["org.freenas:description"] = fields.comments;
  const acl = fields.share_type === "SMB" ? { acl: "inherited" } : {};
  return entry(nas, made(nas, fields.name, type, { native, user, ...acl }), {});
}

export function update(nas: Nas, [id, data]: readonly unknown[]): unknown {
  const fields = changeOf(nas, data);
  if (nas.elsewhere && fields.volsize !== undefined) {
    nas.elsewhere.grow(String(id), fields.volsize);
    return { id, name: id, type: "VOLUME" };
  }
  const dataset = existing(nas, String(id), "id");
  if (fields.volsize !== undefined) checkGrowth(nas, dataset, fields.volsize, fields.force_size);
  for (const [key, raw] of Object.entries(nativeOf(fields))) {
    if (raw === "inherit") delete dataset.native[key];
    else dataset.native[key] = raw;
  }
  const changes = fields.user_properties_update;
  Object.assign(
    dataset.user,
    userOf(
      nas,
      changes.filter(each => !each.remove),
      "data",
    ),
  );
  for (const { key, remove } of changes) if (remove) delete dataset.user[key];
  if (fields.comments !== undefined) dataset.user["org.freenas:description"] = fields.comments;
  return entry(nas, dataset, {});
}

function checkGrowth(nas: Nas, dataset: Dataset, volsize: number, force: boolean): void {
  const attribute = "pool_dataset_update.volsize";
  if (dataset.type !== "VOLUME") throw new Invalid([attribute, "This field is not valid for FILESYSTEM", 22]);
  if (volsize < Number(dataset.native["volsize"])) throw new Invalid([attribute, "You cannot shrink a zvol", 22]);
  if (volsize % Number(property(nas, dataset, "volblocksize").raw) !== 0)
    throw new Invalid([attribute, "Volume size must be a multiple of the block size", 22]);
  const pool = existing(nas, dataset.name.split("/")[0] ?? "");
  const all = Number(property(nas, pool, "available").raw) + Number(property(nas, dataset, "used").raw);
  if (volsize > all * 0.8 && !force) throw new Invalid([attribute, tooMuch, 22]);
}

/** From 25.10 on every user property is shown as if it were set on the thing itself. */
export const userSource = (nas: Nas, own: boolean): string => (own || nas.number >= 2510 ? "LOCAL" : "INHERITED");

/**
 * The properties that pool.dataset.query answers, whatever else a dataset has: get_props_of_interest_mapping() in
 * plugins/pool_/utils.py (24.10.2.4, 25.04.2.6, 25.10.6, 26.0.0-BETA.3), after which dataset.py drops all others; up to 22.12 the
 * list in plugins/pool.py, without snapdev before 22.12.
 */
const answered: ReadonlySet<string> = new Set([
  ...[
    "dedup",
    "mountpoint",
    "aclmode",
    "acltype",
    "atime",
    "casesensitivity",
    "checksum",
    "exec",
    "sync",
    "compression",
  ],
  ...["origin", "quota", "refquota", "reservation", "refreservation", "copies", "snapdir", "readonly", "recordsize"],
  ...["volsize", "volblocksize", "encryption", "used", "available", "special_small_blocks", "creation", "snapdev"],
]);

/** A dataset as `pool.dataset.query` shows it. */
function entry(nas: Nas, dataset: Dataset, extra: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { name, type } = dataset;
  const asked = extra["properties"] as readonly string[] | null | undefined;
  const wanted = propertiesOf(type).filter(
    key => answered.has(key) && nas.number >= (fieldsSince[key] ?? 0) && (asked?.includes(key) ?? true),
  );
  const native = wanted.map(key => {
    const { raw, from } = property(nas, dataset, key);
    const source = from === undefined ? "DEFAULT" : from === name ? "LOCAL" : "INHERITED";
    return [apiNames[key] ?? key, shown(key, raw, source, from)];
  });
  const user = Object.entries(userProperties(nas, dataset))
    .filter(([key]) => !owned.test(key))
    .map(([key, [value, from]]) => [key, shown(key, value, userSource(nas, from === name), from)]);
  const children = Object.values(nas.state.datasets).filter(each => parentOf(each.name) === name);
  const tree = extra["retrieve_children"] === false ? [] : children.map(each => entry(nas, each, extra));
  const snapshots = Object.values(nas.state.snapshots).filter(each => each.dataset === name);
  return {
    id: name,
    name,
    type,
    pool: name.split("/")[0],
    locked: false,
    encrypted: property(nas, dataset, "encryption").raw !== "off",
    children: tree,
    ...Object.fromEntries(native),
    mountpoint: mountpoint(dataset) ?? null,
    user_properties: Object.fromEntries(user),
    ...(extra["snapshots"]
      ? { snapshots: snapshots.map(each => ({ id: `${name}@${each.name}`, name: `${name}@${each.name}` })) }
      : {}),
  };
}

export function query(nas: Nas, [filters, options]: readonly unknown[]): unknown {
  const { extra = {}, ...rest } = (options ?? {}) as QueryOptions;
  // The real one reads everything; to show only what is asked for by its id saves tests their time.
  const id = ((filters ?? []) as readonly (readonly unknown[])[]).find(
    ([key, how]) => key === "id" && how === "=",
  )?.[2];
  const all = Object.values(nas.state.datasets).filter(each => id === undefined || each.name === id);
  const rows = all.sort((a, b) => (a.name < b.name ? -1 : 1));
  return queried(
    rows.map(each => entry(nas, each, extra)),
    filters,
    rest,
  );
}

export function getInstance(nas: Nas, [id]: readonly unknown[]): unknown {
  return entry(nas, existing(nas, String(id)), {});
}

export const snapshotsOf = (nas: Nas, name: string): readonly Snapshot[] =>
  Object.values(nas.state.snapshots).filter(({ dataset }) => dataset === name);
const childrenOf = (nas: Nas, name: string): readonly Dataset[] =>
  Object.values(nas.state.datasets).filter(each => each.name.startsWith(`${name}/`));
/** The datasets that were cloned from a snapshot. */
export const clonesOf = (nas: Nas, snapshot: string): readonly Dataset[] =>
  Object.values(nas.state.datasets).filter(({ origin }) => origin === snapshot);

function unshared(nas: Nas, name: string): void {
  const path = `/mnt/${name}`;
  for (const table of ["nfs", "smb"] as const)
    removed(nas, table, row => row["path"] === path || (row["paths"] as readonly string[] | undefined)?.[0] === path);
}

/** Takes a dataset away, with its shares, and the snapshot that only waited for it. */
export function drop(nas: Nas, name: string): void {
  const { origin } = nas.state.datasets[name] ?? {};
  delete nas.state.datasets[name];
  unshared(nas, name);
  const waiting = origin === undefined ? undefined : nas.state.snapshots[origin];
  if (origin !== undefined && waiting?.deferred && clonesOf(nas, origin).length === 0 && waiting.holds === 0)
    delete nas.state.snapshots[origin];
}

const deletion = v.strictObject({ recursive: or(flag, false), force: or(flag, false) });

export function remove(nas: Nas, [id, options]: readonly unknown[]): unknown {
  const { recursive } = modelled(deletion, options ?? {}, "options");
  const name = String(id);
  if (nas.number >= 2600) return removeOn26(nas, name, recursive);
  const child = recursive ? undefined : childrenOf(nas, name)[0];
  if (child)
    throw new CallError("ENOTEMPTY", `Failed to delete dataset: cannot destroy '${name}': filesystem has children`);
  existing(nas, name);
  // Shares go first, whatever becomes of the dataset (do_delete in plugins/pool_/dataset.py of TS-24.10.2.4 to TS-25.10.6).
  unshared(nas, name);
  const why = obstacle(nas, name, recursive);
  if (why) throw why;
  for (const each of [...childrenOf(nas, name).map(child => child.name), name]) {
    for (const snapshot of snapshotsOf(nas, each)) delete nas.state.snapshots[`${each}@${snapshot.name}`];
    drop(nas, each);
  }
  return true;
}

/** What `zfs destroy` says; only "busy" has a number of its own (delete() in plugins/zfs_/dataset.py of TS-24.10.2.4 to TS-25.10.6). */
function obstacle(nas: Nas, name: string, recursive: boolean): Error | undefined {
  if (nas.busy.has(name))
    return new CallError("EBUSY", `Failed to delete dataset: cannot destroy '${name}': dataset is busy`);
  const children = childrenOf(nas, name);
  const all = [name, ...children.map(child => child.name)];
  const snapshots = all.flatMap(each => snapshotsOf(nas, each));
  if (!recursive && snapshots.length > 0)
    return new CallError("EFAULT", `Failed to delete dataset: cannot destroy '${name}': filesystem has children`);
  const cloned = snapshots.some(each => clonesOf(nas, `${each.dataset}@${each.name}`).length > 0);
  return cloned
    ? new CallError("EFAULT", `Failed to delete dataset: cannot destroy '${name}': filesystem has dependent clones`)
    : undefined;
}

/**
 * 26: recursion destroys the clones of other volumes too, and a destruction that ZFS has refused is reported as done, since what
 * destroy_impl() answers is dropped (do_delete in plugins/pool_/dataset.py of TS-26.0.0-BETA.3).
 */
function removeOn26(nas: Nas, name: string, recursive: boolean): unknown {
  if (!nas.state.datasets[name]) throw new CallError("EINVAL", `'${name}' not found`, "ZFSPathNotFoundException");
  if (!recursive && childrenOf(nas, name).length > 0)
    throw new CallError("ENOTEMPTY", `Failed to delete dataset: cannot destroy '${name}': filesystem has children`);
  unshared(nas, name);
  if (recursive && !nas.busy.has(name)) cascade(nas, name);
  if (!recursive) refuseFamily(nas, name);
  if (!recursive && !nas.busy.has(name)) drop(nas, name);
  return true;
}

export function cascade(nas: Nas, name: string): void {
  for (const child of childrenOf(nas, name)) if (nas.state.datasets[child.name]) cascade(nas, child.name);
  for (const snapshot of snapshotsOf(nas, name)) {
    const id = `${name}@${snapshot.name}`;
    for (const clone of clonesOf(nas, id)) cascade(nas, clone.name);
    delete nas.state.snapshots[id];
  }
  drop(nas, name);
}

/** Refuses what has children or snapshots (destroy_impl() in plugins/zfs/resource_crud.py of TS-26.0.0-BETA.3). */
function refuseFamily(nas: Nas, name: string): void {
  const what =
    childrenOf(nas, name).length > 0 ? "children" : snapshotsOf(nas, name).length > 0 ? "snapshots" : undefined;
  const message = `'${name}' has ${what}. Set recursive=True to remove them.`;
  if (what !== undefined) throw new Invalid(["zfs.resource.destroy", message, 39]);
}

/**
 * 26: zfs.resource.destroy without recursion. It is unmounted without force, and the refusal of ZFS is a validation error with the code
 * of libzfs (plugins/zfs/destroy_impl.py and resource_crud.py of TS-26.0.0-BETA.3; words: error.c of truenas_pylibzfs).
 */
export function destroyed(nas: Nas, name: string): void {
  refuseFamily(nas, name);
  const busy = `Failed to destroy '${name}': [EZFS_BUSY]: cannot destroy '${name}': dataset is busy`;
  if (nas.busy.has(name)) throw new Invalid(["zfs.resource.destroy", busy, ezfsBusy]);
  drop(nas, name);
}

const renaming = v.strictObject({ new_name: v.string(), recursive: or(flag, false), force: or(flag, false) });

/**
 * Up to 25.10 what is in the way is EFAULT and words (rename() in plugins/zfs_/dataset_actions.py of TS-25.10.6), on 26 it has a number
 * (plugins/zfs/resource_crud.py of TS-26.0.0-BETA.3).
 */
export function rename(nas: Nas, [id, data]: readonly unknown[]): unknown {
  const { new_name: to, force } = modelled(renaming, data, "data");
  const from = existing(nas, String(id)).name;
  if (!force) throw new Invalid(["pool.dataset.rename.force", "Renaming may break shares; set force", 22]);
  const refused = (words: string) =>
    new CallError("EFAULT", `Failed to rename dataset: cannot rename to '${to}': ${words}`);
  if (nas.state.datasets[to])
    throw nas.number >= 2600
      ? new Invalid(["zfs.resource.rename", `'${to}' already exists`, 17])
      : refused("dataset already exists");
  if (!nas.state.datasets[parentOf(to)]) throw refused("parent does not exist");
  const moved = (name: string): string =>
    name === from || /^[/@]/.test(name.slice(from.length)) ? `${to}${name.slice(from.length)}` : name;
  for (const each of [existing(nas, from), ...childrenOf(nas, from)]) {
    delete nas.state.datasets[each.name];
    each.name = moved(each.name);
    nas.state.datasets[each.name] = each;
  }
  for (const [key, snapshot] of Object.entries(nas.state.snapshots).filter(
    ([key]) => key.startsWith(from) && moved(key) !== key,
  )) {
    delete nas.state.snapshots[key];
    snapshot.dataset = moved(snapshot.dataset);
    nas.state.snapshots[moved(key)] = snapshot;
    for (const clone of clonesOf(nas, key)) clone.origin = moved(key);
  }
  return null;
}

/** assumed: the message of a refusal; the rest is zfs-promote(8) of OpenZFS 2.3. */
export function promote(nas: Nas, [id]: readonly unknown[]): unknown {
  const dataset = existing(nas, String(id));
  const origin = dataset.origin === undefined ? undefined : nas.state.snapshots[dataset.origin];
  if (!origin) throw new Invalid(["id", `${dataset.name} is not a clone`, 22]);
  const old = origin.dataset;
  for (const snapshot of snapshotsOf(nas, old).filter(each => each.createtxg <= origin.createtxg)) {
    delete nas.state.snapshots[`${old}@${snapshot.name}`];
    for (const clone of clonesOf(nas, `${old}@${snapshot.name}`)) clone.origin = `${dataset.name}@${snapshot.name}`;
    nas.state.snapshots[`${dataset.name}@${snapshot.name}`] = { ...snapshot, dataset: dataset.name };
  }
  const base = nas.state.datasets[old];
  delete dataset.origin;
  if (base) base.origin = `${dataset.name}@${origin.name}`;
  return null;
}

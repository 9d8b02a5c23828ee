import { fieldsSince } from "../facts/older.ts";
import { CallError, Invalid } from "../failure.ts";
import { mountpoint, propertiesOf, property, shown, userProperties } from "../properties.ts";
import { type QueryOptions, queried } from "../query.ts";
import { type Dataset, type Nas, nextTxg } from "../state.ts";
import { apiNames, bytesOf, type Creation, changeOf, creationOf, nativeOf, owned, userOf } from "./dataset-models.ts";

/**
 * pool.dataset.*: the API's older way to datasets. Paths are below src/middlewared/middlewared of truenas/middleware, as everywhere here.
 * Fields and their values: plugins/pool_/dataset.py of TS-24.10.2.4 and TS-25.04.2.6, api/v25_10_0/pool_dataset.py of TS-25.10.6.
 */

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

export const parentOf = (name: string): string => name.slice(0, Math.max(0, name.lastIndexOf("/")));

/**
 * __common_validation and do_create in plugins/pool_/dataset.py of TS-24.10.2.4 to TS-26.0.0-BETA.3; up to 24.10 a missing parent has no name.
 */
function checkPlace(nas: Nas, name: string, type: Dataset["type"], ancestors: boolean): void {
  const attribute = "pool_dataset_create.name";
  const pool = name.split("/")[0] ?? "";
  if (!/^[A-Za-z0-9][A-Za-z0-9_.:-]*(?:\/[A-Za-z0-9_.: -]+)+$/.test(name) || name.length > 200)
    throw new Invalid([attribute, "Invalid dataset name", 22]);
  const parent = nas.state.datasets[parentOf(name)];
  if (!parent && (!ancestors || !(pool in nas.state.pools)))
    throw new Invalid([attribute, noParent(nas, parentOf(name), ancestors), 22]);
  const above = parent ?? nearest(nas, name);
  // From 22.02 on (plugins/pool.py of TS-21.08-BETA.1 and TS-22.02.4).
  if (nas.number >= 2202 && above && property(nas, above, "readonly").raw === "on")
    throw new Invalid([
      "pool_dataset_create.readonly",
      `Turn off readonly mode on ${above.name} to create ${pool}`,
      22,
    ]);
  if (above?.type === "VOLUME") throw new Invalid([attribute, `${above.name}: parent may not be a ZFS volume`, 22]);
  if (!nas.state.datasets[name]) return;
  if (type === "FILESYSTEM") throw new Invalid([attribute, `Path /mnt/${name} already exists`, 22]);
  throw new CallError("EFAULT", `Failed to create dataset: cannot create '${name}': dataset already exists`);
}

function noParent({ number }: Nas, parent: string, ancestors: boolean): string {
  if (ancestors) return "Please specify a pool which exists for the dataset/volume to be created";
  if (number < 2504) return "Parent dataset does not exist for specified name";
  return `${parent.includes("/") ? "Parent dataset" : "zpool"} (${parent}) does not exist.`;
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

/** The same place: the size is compared with the free space of the parent, the nearest dataset above that is there. */
function checkVolume(nas: Nas, name: string, fields: Creation): void {
  const block = Number(bytesOf(fields.volblocksize ?? "16K"));
  const attribute = "pool_dataset_create.volsize";
  if (fields.volsize % block !== 0)
    throw new Invalid([attribute, "Volume size should be a multiple of volume block size", 22]);
  const above = nearest(nas, name);
  const free = above ? Number(property(nas, above, "available").raw) : 0;
  if (fields.volsize > free * 0.8 && !fields.force_size) throw new Invalid([attribute, tooMuch, 22]);
  if (fields.volsize > free && !fields.sparse)
    throw new CallError("EFAULT", `Failed to create dataset: cannot create '${name}': out of space`);
}

const tooMuch = "It is not recommended to use more than 80% of your available space for VOLUME";

export function create(nas: Nas, [data]: readonly unknown[]): unknown {
  const type = (data as { type?: unknown } | undefined)?.type === "VOLUME" ? "VOLUME" : "FILESYSTEM";
  const prefix = nas.number >= 2600 ? `data.${type}` : "data";
  const fields = creationOf(nas, data, prefix);
  // Dropped by 26.0.0-BETA.1 to BETA.3 (do_create in plugins/pool_/dataset.py of TS-26.0.0-BETA.3; repaired by 90af82a363).
  const user = { ...userOf(nas, nas.beta ? [] : fields.user_properties, prefix) };
  checkPlace(nas, fields.name, type, fields.create_ancestors);
  if (fields.type === "VOLUME") checkVolume(nas, fields.name, fields);
  else if (fields.share_type !== "SMB") checkAcl(nas, nearest(nas, fields.name), fields, "pool_dataset_create");
  const missing = fields.name.split("/").map((_, n, all) => all.slice(0, n + 1).join("/"));
  for (const name of missing.slice(0, -1)) if (!nas.state.datasets[name]) made(nas, name, "FILESYSTEM");
  const native = nativeOf(fields);
  if (fields.share_type === "SMB")
    Object.assign(native, { casesensitivity: "insensitive", acltype: "nfsv4", aclmode: "restricted" });
  const { algorithm } = fields.encryption_options ?? {};
  if (fields.encryption) native["encryption"] = (algorithm ?? "AES-256-GCM").toLowerCase();
  if (fields.type === "VOLUME" && !fields.sparse) native["refreservation"] ??= native["volsize"] ?? "0";
  if (fields.comments !== undefined) user["org.freenas:description"] = fields.comments;
  return entry(nas, made(nas, fields.name, type, { native, user }), {});
}

/**
 * A new dataset for SMB gets its access control list from a job, which the creation starts and waits for (do_create in
 * plugins/pool_/dataset.py of TS-24.10.2.4 to TS-25.10.6). It has the lock of its kind, so that one too many is answered with the job of
 * another dataset, and the creation ends well (JobsQueue.add in job.py).
 */
export function listsForSmb(nas: Nas, [data]: readonly unknown[]) {
  const { name, share_type } = data as { readonly name: string; readonly share_type?: string };
  if (share_type !== "SMB") return undefined;
  const dataset = existing(nas, name);
  const run = () => {
    dataset.acl = "inherited";
  };
  return { method: "filesystem.setacl", params: [{ path: `/mnt/${name}` }], run };
}

export function update(nas: Nas, [id, data]: readonly unknown[]): unknown {
  const fields = changeOf(nas, data);
  // One that was destroyed meanwhile is answered like any other that does not exist.
  if (nas.elsewhere?.has(String(id)) && fields.volsize !== undefined) {
    nas.elsewhere.grow(String(id), fields.volsize);
    return { id, name: id, type: "VOLUME" };
  }
  const dataset = existing(nas, String(id), "id");
  if (fields.volsize !== undefined) checkGrowth(nas, dataset, fields.volsize, fields.force_size === true);
  for (const [key, raw] of Object.entries(nativeOf(fields))) {
    if (raw === "inherit") delete dataset.native[key];
    else dataset.native[key] = raw;
  }
  const changes = fields.user_properties_update ?? [];
  Object.assign(
    dataset.user,
    userOf(
      nas,
      changes.filter(each => !each.remove),
      "data",
    ),
  );
  for (const [at, { key, remove }] of changes.entries()) {
    // update_zfs_object_props in plugins/zfs_/dataset.py of TS-24.10.2.4 to TS-25.10.6. 26 inherits it (update_impl in plugins/pool_/dataset.py of
    // TS-26.0.0-BETA.3), which ZFS does for a property that is not there, too (dsl_prop_set_sync_impl in dsl_prop.c of OpenZFS 2.3).
    if (remove && nas.number < 2600 && dataset.user[key] === undefined)
      throw new Invalid([
        `properties.user_properties_update.${at}`,
        "Property does not exist and cannot be inherited",
        22,
      ]);
    if (remove) delete dataset.user[key];
  }
  if (fields.comments !== undefined) dataset.user["org.freenas:description"] = fields.comments;
  return entry(nas, dataset, {});
}

function checkGrowth(nas: Nas, dataset: Dataset, volsize: number, force: boolean): void {
  const attribute = "pool_dataset_update.volsize";
  if (dataset.type !== "VOLUME") throw new Invalid([attribute, "This field is not valid for FILESYSTEM", 22]);
  if (volsize < Number(dataset.native["volsize"]))
    throw new Invalid([attribute, "You cannot shrink a zvol from GUI, this may lead to data loss.", 22]);
  if (volsize % Number(property(nas, dataset, "volblocksize").raw) !== 0)
    throw new Invalid([attribute, "Volume size should be a multiple of volume block size", 22]);
  const above = existing(nas, parentOf(dataset.name));
  const all = Number(property(nas, above, "available").raw) + Number(property(nas, dataset, "used").raw);
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

/** Whether a dataset, or the one that it has its encryption from, is locked (pool_dataset's "locked" in plugins/pool_/dataset.py). */
export function isLocked(nas: Nas, dataset: Dataset): boolean {
  const root = nas.state.datasets[property(nas, dataset, "encryption").from ?? ""];
  return dataset.locked === true || root?.locked === true;
}

/** The datasets with keys of their own, at and below a name (encryption_summary in plugins/pool_/dataset_encryption_info.py of TS-25.10.6). */
export function encryptionSummary(nas: Nas, [id]: readonly unknown[]): unknown {
  const top = existing(nas, String(id)).name;
  const roots = Object.values(nas.state.datasets).filter(
    each => `${each.name}/`.startsWith(`${top}/`) && property(nas, each, "encryptionroot").raw === each.name,
  );
  return roots.map(each => ({
    name: each.name,
    key_format: "HEX",
    key_present_in_database: !each.keyLost,
    valid_key: !each.keyLost,
    locked: isLocked(nas, each),
    unlock_error: null,
    unlock_successful: true,
  }));
}

/**
 * A dataset as `pool.dataset.query` shows it. What is derived from a property that is not asked for is missing, or false (__dataset_handles in
 * libzfs.pyx of truenas/py-libzfs, transform() in plugins/pool_/dataset.py of TS-24.10.2.4).
 */
function entry(nas: Nas, dataset: Dataset, extra: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { name, type } = dataset;
  const asked = extra["properties"] as readonly string[] | null | undefined;
  const has = (key: string): boolean => asked?.includes(key) ?? true;
  const isAnswered = (key: string) => answered.has(key) && nas.number >= (fieldsSince[key] ?? 0) && has(key);
  const wanted = propertiesOf(type).filter(isAnswered);
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
    encrypted: has("encryption") && property(nas, dataset, "encryption").raw !== "off",
    locked: has("encryption") && isLocked(nas, dataset),
    children: tree,
    ...Object.fromEntries(native),
    ...(has("mountpoint") || type === "VOLUME" ? { mountpoint: mountpoint(dataset) ?? null } : {}),
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
  const rows = all.sort((a, b) => (a.name < b.name ? -1 : 1)).map(each => entry(nas, each, extra));
  return queried(rows, filters, rest);
}

export function getInstance(nas: Nas, [id]: readonly unknown[]): unknown {
  return entry(nas, existing(nas, String(id)), {});
}

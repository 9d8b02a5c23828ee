import * as v from "valibot";
import { Invalid } from "../failure.ts";
import { flag, modelled, modelledOld, or, text, whole } from "../models.ts";
import type { Nas } from "../state.ts";

/** The fields of pool.dataset.create and pool.dataset.update, as each version takes them, and the properties that they set. */

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
/** ZFS_COMPRESSION_ALGORITHM_CHOICES in plugins/pool_/utils.py of TS-24.10.2.4, and the models from 25.10 on. */
const compression =
  /^(?:ON|OFF|LZ4|GZIP(?:-[19])?|ZSTD(?:-(?:[1-9]|1[0-9]))?|ZSTD-FAST(?:-(?:[1-9]|[1-9]0|100|500|1000))?|ZLE|LZJB|INHERIT)$/;

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
export const volumeModel = v.strictObject({
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
export const fieldsSince: Readonly<Record<string, number>> = {
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
export function creationOf(nas: Nas, data: unknown, prefix: string): Creation {
  const model = (data as { readonly type?: unknown } | undefined)?.type === "VOLUME" ? volumeModel : filesystemModel;
  return {
    ...none,
    ...fitting<typeof volumeModel | typeof filesystemModel>(nas, model, data, ["pool_dataset_create", prefix]),
  };
}

/** What a version without these fields does. */
const none = { create_ancestors: false, user_properties: [], user_properties_update: [] };

/** The fields of a change, as the version takes them. */
export const changeOf = (nas: Nas, data: unknown): v.InferOutput<typeof updateModel> => ({
  ...none,
  ...fitting(nas, updateModel, data, ["pool_dataset_update", "data"]),
});

export const owned =
  /^org\.freenas:(?:description|quota_warning|quota_critical|refquota_warning|refquota_critical)$|^org\.truenas:managedby$/;
const zfsNames: Readonly<Record<string, string>> = {
  deduplication: "dedup",
  special_small_block_size: "special_small_blocks",
};
export const apiNames: Readonly<Record<string, string>> = {
  dedup: "deduplication",
  special_small_blocks: "special_small_block_size",
  encryption: "encryption_algorithm",
};

export const bytesOf = (value: string): string => {
  const match = /^([0-9]+)([KM]?)B?$/.exec(value);
  return match ? String(Number(match[1]) * (match[2] === "K" ? 1024 : match[2] === "M" ? 1024 ** 2 : 1)) : value;
};

/** The native properties of a request, as ZFS names them. */
export function nativeOf(fields: Readonly<Record<string, unknown>>): Record<string, string> {
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

export function userOf(nas: Nas, list: readonly { key: string; value?: string | undefined }[], prefix: string) {
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

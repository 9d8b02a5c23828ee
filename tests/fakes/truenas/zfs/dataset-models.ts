import { completed } from "../facts/complete.ts";
import { Invalid } from "../failure.ts";
import type { Nas } from "../state.ts";

/** pool.dataset.create and pool.dataset.update: the values of properties that the facts lack, and the properties that they set. */

const onOff = "ON|OFF|INHERIT";
/**
 * Words up to 25.04, whose older models show none (plugins/pool_/dataset.py and utils.py of TS-24.10.2.4), and compressions of all
 * versions (ZFS_COMPRESSION_ALGORITHM_CHOICES there, api/v25_10_0/pool_dataset.py of TS-25.10.6).
 */
const words: Readonly<Record<string, string>> = {
  compression:
    "ON|OFF|LZ4|GZIP(?:-[19])?|ZSTD(?:-(?:[1-9]|1[0-9]))?|ZSTD-FAST(?:-(?:[1-9]|[1-9]0|100|500|1000))?|ZLE|LZJB|INHERIT",
  sync: "STANDARD|ALWAYS|DISABLED|INHERIT",
  snapdev: "HIDDEN|VISIBLE|INHERIT",
  deduplication: "ON|OFF|VERIFY|INHERIT",
  checksum: "ON|OFF|FLETCHER2|FLETCHER4|SHA256|SHA512|SKEIN|EDONR|BLAKE3|INHERIT",
  aclmode: "PASSTHROUGH|RESTRICTED|DISCARD|INHERIT",
  acltype: "OFF|NFSV4|POSIX|INHERIT",
  casesensitivity: "SENSITIVE|INSENSITIVE|INHERIT",
  recordsize: "[0-9]+[KM]?|INHERIT",
  ...{ exec: onOff, readonly: onOff, atime: onOff },
};
/** CORE has other words for access control lists (plugins/pool.py of TN-13.0-U6.3). */
const wordsOfCore = { aclmode: "PASSTHROUGH|RESTRICTED", acltype: "NOACL|NFS4ACL|POSIXACL" };
const quotas = ["quota", "refquota"];
const properties = [
  ...Object.keys(words),
  ...quotas,
  ...["snapdir", "reservation", "refreservation", "special_small_block_size", "copies", "volsize", "volblocksize"],
];

function checkWords(nas: Nas, fields: Readonly<Record<string, unknown>>, prefix: string): void {
  // From 25.04 on ".zfs" can be disabled (plugins/pool_/dataset.py of TS-24.10.2.4 and TS-25.04.2.6).
  const snapdir = nas.number < 2504 ? "VISIBLE|HIDDEN|INHERIT" : "DISABLED|VISIBLE|HIDDEN|INHERIT";
  const known = { ...words, snapdir, ...(nas.number < 2000 ? wordsOfCore : {}) };
  for (const [key, pattern] of Object.entries(known)) {
    const value = fields[key];
    if (value !== undefined && !new RegExp(`^(?:${pattern})$`).test(String(value)))
      throw new Invalid([`${prefix}.${key}`, `Invalid choice: ${value}`, 22]);
  }
  for (const key of quotas) {
    const value = fields[key];
    if (typeof value === "number" && value !== 0 && value < 1024 ** 3)
      throw new Invalid([`${prefix}.${key}`, "Input should be 0 or at least 1 GiB", 22]);
  }
}

interface UserProperty {
  readonly key: string;
  readonly value?: string;
  readonly remove?: boolean;
}

/** What the rules for a creation read, besides properties. */
export interface Creation extends Readonly<Record<string, unknown>> {
  readonly name: string;
  readonly type: "FILESYSTEM" | "VOLUME";
  readonly share_type?: string;
  readonly comments?: string;
  readonly create_ancestors: boolean;
  readonly encryption: boolean;
  readonly encryption_options?: { readonly algorithm?: string };
  readonly user_properties: readonly UserProperty[];
  readonly volsize: number;
  readonly volblocksize?: string;
  readonly sparse?: boolean;
  readonly force_size?: boolean;
}

/** The fields of a creation; what it inherits it does not set. */
export function creationOf(nas: Nas, data: unknown, prefix: string): Creation {
  const fields = completed<Creation>(nas, "pool.dataset.create", data);
  checkWords(nas, fields, nas.number < 2510 ? "pool_dataset_create" : prefix);
  const own = Object.entries(fields).filter(([, value]) => value !== "INHERIT");
  return { ...none, ...(Object.fromEntries(own) as Creation) };
}

/** What a version without these fields does. */
const none = { create_ancestors: false, user_properties: [] };

/** What the rules for a change read, besides properties. */
interface Change extends Readonly<Record<string, unknown>> {
  readonly volsize?: number;
  readonly force_size?: boolean;
  readonly comments?: string;
  readonly user_properties_update?: readonly UserProperty[];
}

/** The fields of a change. */
export function changeOf(nas: Nas, data: unknown): Change {
  const fields = completed<Change>(nas, "pool.dataset.update", data, 1);
  checkWords(nas, fields, nas.number < 2510 ? "pool_dataset_update" : "data");
  return fields;
}

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
  for (const key of properties) {
    const value = fields[key];
    if (value === undefined) continue;
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

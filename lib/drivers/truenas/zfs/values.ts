import { jsonSize } from "../../sizes.ts";
import { type NewDataset, ZfsError } from "../../zfs/zfs.ts";

/** Properties of ZFS as fields of the API. */

const numbers: ReadonlySet<string> = new Set([
  "quota",
  "refquota",
  "reservation",
  "refreservation",
  "volsize",
  "copies",
]);

const apiNames: Readonly<Record<string, string>> = {
  dedup: "deduplication",
  special_small_blocks: "special_small_block_size",
};
const zfsNames: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Object.entries(apiNames).map(([zfs, api]) => [api, zfs])),
  // A creation has other fields for it.
  encryption_algorithm: "encryption",
};

const settable: ReadonlySet<string> = new Set([
  ...["aclmode", "acltype", "atime", "casesensitivity", "checksum", "compression", "copies", "dedup", "exec"],
  ...["quota", "readonly", "recordsize", "refquota", "refreservation", "reservation", "snapdev", "snapdir"],
  ...["special_small_blocks", "sync", "volblocksize", "volsize"],
]);

/** Properties that can change while a volume is in use, and for which the API has no field. */
export const unsettable: ReadonlySet<string> = new Set(["logbias", "primarycache", "relatime", "secondarycache"]);

/** Properties that are ignored: TrueNAS mounts and shares datasets itself. */
export const ofServer: ReadonlySet<string> = new Set(["canmount", "sharenfs", "sharesmb"]);

/** User properties that TrueNAS keeps under names of its own. */
const owned: Readonly<Record<string, string>> = {
  "org.freenas:description": "comments",
  "org.freenas:quota_warning": "quota_warning",
  "org.freenas:quota_critical": "quota_critical",
  "org.freenas:refquota_warning": "refquota_warning",
  "org.freenas:refquota_critical": "refquota_critical",
  "org.truenas:managedby": "managedby",
};

/** The ZFS name of a property of the API. */
export const zfsName = (name: string): string => zfsNames[name] ?? name;

/** The user property that TrueNAS shows under this name. */
export const ownedName = (name: string): string | undefined =>
  Object.entries(owned).find(([, field]) => field === name)?.[0];

/** Whether the API can set this property of ZFS. */
export const isSettable = (name: string): boolean => settable.has(name);

export const isUserProperty = (name: string): boolean => name.includes(":");

/** A size of records or blocks as the API spells it: "131072" → "128K". */
function sizeWord(value: string): string {
  if (!/^[0-9]+$/.test(value)) return value.toUpperCase().replace(/B$/, "");
  const bytes = Number(value);
  if (bytes % 1024 ** 2 === 0) return `${bytes / 1024 ** 2}M`;
  return bytes % 1024 === 0 ? `${bytes / 1024}K` : value;
}

const suffixes = "KMGTP";

function bytesOf(name: string, value: string): number {
  const match = /^([0-9]+)(?:([KMGTP])(?:i?B)?)?$/i.exec(value);
  if (value === "none") return 0;
  if (!match) throw new ZfsError("invalid", `the property ${name} must be a number, not "${value}"`);
  const [, digits = "0", suffix] = match;
  return jsonSize(BigInt(digits) * (suffix ? 1024n ** BigInt(suffixes.indexOf(suffix.toUpperCase()) + 1) : 1n));
}

/** The refreservation of a zvol that reserves its whole size. */
export const wholeSize = "auto";

/** Why no version takes a value of ZFS (ZFS_COMPRESSION_ALGORITHM_CHOICES of TS-24.10.2.4 to TS-26.0.0-BETA.3); undefined for others. */
export const refusedValue = (name: string, value: string): string | undefined =>
  name === "compression" && /^gzip-[2-8]$/i.test(value)
    ? `the API of TrueNAS does not take ${value}, only gzip, gzip-1 and gzip-9 of gzip`
    : undefined;

function nativeValue(name: string, value: string): unknown {
  const refused = refusedValue(name, value);
  if (refused !== undefined) throw new ZfsError("invalid", `the property ${name} cannot be ${value}: ${refused}`);
  if (name === "refreservation" && value === wholeSize) return wholeSize;
  if (numbers.has(name)) return bytesOf(name, value);
  if (name === "special_small_blocks") return bytesOf(name, value);
  if (name === "recordsize" || name === "volblocksize") return sizeWord(value);
  return value.toUpperCase();
}

/** TrueNAS generates and keeps the key, so that volumes are unlocked after a restart of the system. */
function encryptionFields(value: string): Readonly<Record<string, unknown>> {
  if (value === "off") return { encryption: false, inherit_encryption: false };
  const algorithm = value === "on" ? "AES-256-GCM" : value.toUpperCase();
  if (!/^AES-(?:128|192|256)-[CG]CM$/.test(algorithm))
    throw new ZfsError("invalid", `encryption cannot be "${value.slice(0, 40)}": on, off, aes-256-gcm and the like`);
  // The default of every version needs no field.
  const named = algorithm === "AES-256-GCM" ? {} : { algorithm };
  return { encryption: true, inherit_encryption: false, encryption_options: { generate_key: true, ...named } };
}

/** Values as fields of a request and as user properties. `undefined`: inherited again. */
export interface ApiValues {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly user: Readonly<Record<string, string | undefined>>;
}

/** Throws ZfsError "invalid" for a property that cannot be set through the API. */
export function apiValues(values: Readonly<Record<string, string | undefined>>): ApiValues {
  const fields: Record<string, unknown> = {};
  const user: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(values)) {
    if (ofServer.has(name)) continue;
    const field = owned[name];
    if (field !== undefined) fields[field] = field.includes("quota") ? Number(value ?? 0) : (value ?? "");
    else if (isUserProperty(name)) user[name] = value;
    else if (name === "encryption") Object.assign(fields, encryptionFields(value ?? "off"));
    else if (!settable.has(name))
      throw new ZfsError(
        "invalid",
        `the property ${name} cannot be set through the API of TrueNAS; set it on the parent dataset`,
      );
    else fields[apiNames[name] ?? name] = value === undefined ? "INHERIT" : nativeValue(name, value);
  }
  return { fields, user };
}

const onlyForNew: ReadonlySet<string> = new Set([
  ...["casesensitivity", "encryption", "encryption_options", "inherit_encryption", "volblocksize"],
]);

/** The fields that can be changed on an existing dataset. */
export const changeable = (fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !onlyForNew.has(name)));

/** User properties in a request that creates. */
const asList = (user: ApiValues["user"]): readonly object[] =>
  Object.entries(user).flatMap(([key, value]) => (value === undefined ? [] : [{ key, value }]));

/** User properties in a request that changes. */
export const asChanges = (user: ApiValues["user"]): readonly object[] =>
  Object.entries(user).map(([key, value]) => (value === undefined ? { key, remove: true } : { key, value }));

/** The first version that knows no algorithm but the default (PoolDatasetCreate of stable/26 for 26.0.0-RC.1; the betas ignore it). */
const oneAlgorithm = 2600;

/** The request that creates a dataset; with `parents` also those above it. Throws "invalid" for what this version does not take. */
export function creation(
  { name, volsize, values }: NewDataset,
  parents: boolean,
  shareType: "GENERIC" | "SMB",
  version: number,
): object {
  const { fields, user } = apiValues(values);
  if (version >= oneAlgorithm && "algorithm" in ((fields["encryption_options"] ?? {}) as object))
    throw new ZfsError("invalid", "from TrueNAS 26 on the API takes only on, off and aes-256-gcm as encryption");
  const common = { name, create_ancestors: parents, user_properties: asList(user) };
  if (volsize === undefined) return { ...fields, ...common, type: "FILESYSTEM", share_type: shareType };
  const { refreservation, ...rest } = fields;
  // The server reserves the size of a thick volume; a sparse one may be larger than the free space.
  const sparse = refreservation === 0;
  return {
    ...rest,
    ...common,
    type: "VOLUME",
    volsize: jsonSize(volsize),
    sparse,
    ...(sparse ? { force_size: true } : {}),
  };
}

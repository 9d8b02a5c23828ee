import type { Dataset, Nas } from "./state.ts";

/**
 * Values of ZFS properties, as the three ways to ask for them show them: zfsprops(7) of OpenZFS 2.3; {parsed, rawvalue, value, source} in
 * plugins/pool_/utils.py and dataset.py of TS-24.10.2.4. What a pool is made with: fsoptions in plugins/pool_/pool.py of TS-24.10.2.4 to
 * TS-26.0.0-BETA.3 (pool.py before).
 */

/** How many bytes an empty dataset takes with blocks of 4 KiB, as TrueNAS makes pools (OpenZFS 2.1.11 in the lab, tests/lab/fakes.lab.ts). */
export const emptyBytes: Readonly<Record<Dataset["type"], number>> = { FILESYSTEM: 98_304, VOLUME: 57_344 };

const inheritable: Readonly<Record<string, string>> = {
  aclmode: "discard",
  acltype: "posix",
  atime: "off",
  checksum: "on",
  compression: "lz4",
  copies: "1",
  dedup: "off",
  // Encryption cannot be inherited after the creation, but each dataset has that of its parent unless it got its own (zfsprops(7)).
  encryption: "off",
  exec: "on",
  readonly: "off",
  recordsize: "131072",
  snapdev: "hidden",
  snapdir: "hidden",
  special_small_blocks: "0",
  sync: "standard",
};
const ownDefaults: Readonly<Record<string, string>> = {
  casesensitivity: "sensitive",
  quota: "0",
  refquota: "0",
  reservation: "0",
  refreservation: "0",
  volblocksize: "16384",
  volsize: "0",
  volthreading: "on",
};

const parentOf = (name: string): string => name.slice(0, Math.max(0, name.lastIndexOf("/")));
const poolOf = (name: string): string => name.split("/")[0] ?? "";
const mine = (set: object, name: string): boolean => Object.hasOwn(set, name);

/** Bytes that a dataset takes by itself. */
const usedBy = ({ type, native, content }: Dataset): number =>
  Math.max(Number(native["refreservation"] ?? 0), (content ?? "").length, emptyBytes[type]);

const below = (nas: Nas, name: string): readonly Dataset[] =>
  Object.values(nas.state.datasets).filter(each => each.name === name || each.name.startsWith(`${name}/`));

const used = (nas: Nas, name: string): number => below(nas, name).reduce((sum, each) => sum + usedBy(each), 0);

function available(nas: Nas, { name, type, native }: Dataset): number {
  const free = (nas.state.pools[poolOf(name)] ?? 0) - used(nas, poolOf(name));
  const quota = Number(native["refquota"] ?? 0);
  const own = quota > 0 ? [quota - usedBy({ type, native, content: "" } as Dataset)] : [];
  return Math.max(0, Math.min(free, ...own, ...quotasOf(nas, name)));
}

/** What the quotas of a dataset and of those above it leave (zfsprops(7), "available" and "quota"). */
function quotasOf(nas: Nas, name: string): readonly number[] {
  if (name === "") return [];
  const quota = Number(nas.state.datasets[name]?.native["quota"] ?? 0);
  return [...(quota > 0 ? [quota - used(nas, name)] : []), ...quotasOf(nas, parentOf(name))];
}

/** Where a file system is mounted; undefined for a zvol. */
export const mountpoint = ({ type, name }: Dataset): string | undefined =>
  type === "FILESYSTEM" ? `/mnt/${name}` : undefined;

/** A property: its raw value and the dataset it is set on; undefined: a default or ZFS' own. */
export function property(
  nas: Nas,
  dataset: Dataset,
  key: string,
): { readonly raw: string; readonly from: string | undefined } {
  if (mine(dataset.native, key)) return { raw: dataset.native[key] ?? "", from: dataset.name };
  if (key in inheritable) {
    const parent = nas.state.datasets[parentOf(dataset.name)];
    return parent ? property(nas, parent, key) : { raw: inheritable[key] ?? "", from: undefined };
  }
  return { raw: ownDefaults[key] ?? ownValue(nas, dataset, key), from: undefined };
}

/** The dataset with the key of an encrypted one; a clone has the key of its origin (zfsprops(7), zfs-load-key(8)). */
function encryptionRoot(nas: Nas, dataset: Dataset): string {
  const { raw, from } = property(nas, dataset, "encryption");
  const origin = nas.state.datasets[dataset.origin?.split("@")[0] ?? ""];
  return raw === "off" ? "" : origin ? encryptionRoot(nas, origin) : (from ?? "");
}

function ownValue(nas: Nas, dataset: Dataset, key: string): string {
  const referenced = String(Math.max(emptyBytes[dataset.type], (dataset.content ?? "").length));
  const values: Readonly<Record<string, () => string>> = {
    available: () => String(available(nas, dataset)),
    createtxg: () => String(dataset.createtxg),
    encryptionroot: () => encryptionRoot(nas, dataset),
    creation: () => String(dataset.creation),
    guid: () => dataset.guid,
    logicalreferenced: () => referenced,
    logicalused: () => referenced,
    mounted: () => (dataset.type === "VOLUME" ? "-" : dataset.unmounted ? "no" : "yes"),
    mountpoint: () => mountpoint(dataset) ?? "",
    origin: () => dataset.origin ?? "",
    referenced: () => referenced,
    type: () => dataset.type.toLowerCase(),
    used: () => String(used(nas, dataset.name)),
    written: () => "0",
  };
  return values[key]?.() ?? "";
}

const common = [
  ...["available", "checksum", "compression", "copies", "createtxg", "creation", "dedup", "encryption"],
  ...["encryptionroot", "guid", "logicalreferenced", "logicalused", "origin", "readonly", "referenced"],
  ...["refreservation", "reservation", "snapdev", "special_small_blocks", "sync", "type", "used", "written"],
];
const ofVolumes = [...common, "volsize", "volblocksize", "volthreading"];
const ofFilesystems = [
  ...common,
  ...["aclmode", "acltype", "atime", "casesensitivity", "exec", "mounted", "mountpoint", "quota", "recordsize"],
  ...["refquota", "snapdir"],
];

/** The native properties that a dataset of this type has. */
export const propertiesOf = (type: Dataset["type"]): readonly string[] =>
  type === "VOLUME" ? ofVolumes : ofFilesystems;

/** User properties with what is inherited, and where each one is set. */
export function userProperties(nas: Nas, dataset: Dataset): Readonly<Record<string, readonly [string, string]>> {
  const parent = nas.state.datasets[parentOf(dataset.name)];
  const own = Object.entries(dataset.user).map(([key, value]) => [key, [value, dataset.name] as const] as const);
  return { ...(parent ? userProperties(nas, parent) : {}), ...Object.fromEntries(own) };
}

const numbers =
  /^(?:available|copies|createtxg|logical.*|quota|recordsize|ref.*|reservation|special_small_blocks|used|vol.*|written)$/;
const zeroIsNull = new Set(["quota", "refquota", "reservation", "refreservation"]);

function parsedOf(key: string, raw: string): unknown {
  if (zeroIsNull.has(key) && raw === "0") return null;
  if (key === "creation") return { $date: Number(raw) * 1000 };
  if (numbers.test(key)) return Number(raw);
  if (raw === "on" || raw === "off") return raw === "on";
  return raw === "" ? null : raw;
}

/** A property as `pool.dataset.query` and the snapshot queries show it. */
export function shown(key: string, raw: string, source: string, from?: string): Readonly<Record<string, unknown>> {
  const value = zeroIsNull.has(key) && raw === "0" ? null : numbers.test(key) ? raw : raw.toUpperCase();
  const plain = key === "origin" || key === "mountpoint" || key.includes(":");
  return { parsed: parsedOf(key, raw), rawvalue: raw, value: plain ? raw : value, source, source_info: from ?? null };
}

import { CsiError } from "../../core/errors.ts";
import { rendered } from "../../core/template.ts";
import type { Context, VolumeSpec } from "../driver.ts";
import type { ConnectionIdentity } from "../module.ts";
import { parameter } from "../parameters.ts";
import type { Notes, TenureStore } from "../store.ts";
import { tenureText } from "../tenure.ts";
import { contextText, copyOfText, markValues, noteProperty, property, refuseUnfit } from "./properties.ts";
import type { StoreSettings, ZfsStorage } from "./storage.ts";
import type { ZfsVolume } from "./volume.ts";

/** Values of new datasets and snapshots by property. */
export type NewValues = Readonly<Record<string, string>>;

/** Whether a parameter is "true". Throws "invalid-argument" for text that is neither "true" nor "false" nor empty. */
export function isSwitchedOn(parameters: Context, identity: ConnectionIdentity, key: string): boolean {
  const value = parameter(parameters, identity, key);
  if (value === undefined || value === "" || value === "false") return false;
  if (value === "true") return true;
  throw new CsiError("invalid-argument", `the parameter ${key} must be "true" or "false", not "${value.slice(0, 40)}"`);
}

/** Native properties that a class may choose for its volumes: they change how data is kept, not where or who may reach it. */
export const choosable = [
  ...["aclinherit", "aclmode", "acltype", "atime", "casesensitivity", "checksum", "compression", "copies", "dedup"],
  ...["devices", "dnodesize", "encryption", "exec", "logbias", "normalization", "prefetch", "primarycache"],
  ...["recordsize", "relatime", "redundant_metadata", "secondarycache", "setuid", "snapdir", "special_small_blocks"],
  ...["sync", "utf8only", "volblocksize", "volmode", "xattr"],
];

const prefix = "zfs.";

/** The properties that a class chooses, such as `zfs.compression: lz4`. Throws "invalid-argument" for one that it may not choose. */
function chosen(parameters: Context): NewValues {
  const pairs = Object.entries(parameters).filter(([key]) => key.startsWith(prefix));
  return Object.fromEntries(
    pairs.map(([key, value]) => {
      const name = key.slice(prefix.length);
      if (choosable.includes(name)) return [name, value];
      throw new CsiError("invalid-argument", `a class cannot choose the ZFS property "${name.slice(0, 80)}"`);
    }),
  );
}

/** Whether a class asks for encrypted volumes. */
export function wantsEncryption(parameters: Context): boolean {
  const value = parameters[`${prefix}encryption`];
  return value !== undefined && value !== "" && value !== "off";
}

const size = /^(?:512|(?:1|2|4|8|16|32|64|128|256|512)K|1M)$/i;
const cache = /^(?:all|none|metadata)$/;
const onOff = /^(?:on|off)$/;

/** Properties that may change while a volume is in use, their values, and of which type of volume (zfsprops(7)). */
const changeable: Readonly<Record<string, { readonly values: RegExp; readonly only?: "filesystem" }>> = {
  compression: {
    values: /^(?:on|off|lz4|lzjb|zle|gzip(?:-[1-9])?|zstd(?:-(?:[1-9]|1[0-9]))?|zstd-fast(?:-[0-9]{1,4})?)$/,
  },
  sync: { values: /^(?:standard|always|disabled)$/ },
  logbias: { values: /^(?:latency|throughput)$/ },
  primarycache: { values: cache },
  secondarycache: { values: cache },
  copies: { values: /^[123]$/ },
  atime: { values: onOff, only: "filesystem" },
  relatime: { values: onOff, only: "filesystem" },
  recordsize: { values: size, only: "filesystem" },
};

/** The properties that mutable parameters change, `compression` or `zfs.compression` alike. Throws "invalid-argument". */
export function mutableValues(
  parameters: Context,
  { volumes: { type }, fixed }: Pick<StoreSettings, "volumes" | "fixed">,
): NewValues {
  const offered = Object.keys(changeable).filter(name => !fixed.has(name));
  return Object.fromEntries(
    Object.entries(parameters).map(([key, value]) => {
      const name = key.replace(/^zfs\./, "");
      const known = changeable[name];
      if (!known || fixed.has(name) || (known.only !== undefined && known.only !== type))
        throw new CsiError(
          "invalid-argument",
          `"${key.slice(0, 80)}" cannot be changed; what can: ${offered.join(", ")}`,
        );
      if (known.values.test(value)) return [name, value];
      throw new CsiError("invalid-argument", `${key} cannot be "${value.slice(0, 80)}" (zfsprops(7))`);
    }),
  );
}

/** Properties that only a new dataset accepts; a dataset made from another inherits them (zfsprops(7)). */
const onCreation = new Set([
  ...["casesensitivity", "normalization", "utf8only", "volblocksize", "encryption", "keyformat", "pbkdf2iters"],
  "keylocation",
]);

/** Properties that say how access control lists are kept and changed. */
export const listProperties: readonly string[] = ["acltype", "aclmode"];

/** The bytes of a block size such as "16K". */
export const blockBytes = (text: string): bigint =>
  text.endsWith("K") ? BigInt(text.slice(0, -1)) * 1024n : BigInt(text);

const renderedAll = (templates: NewValues, name: string, parameters: Context): NewValues =>
  Object.fromEntries(
    Object.entries(templates).map(([key, template]) => [key, rendered(template, { name, parameters })]),
  );

/** The properties that keep a volume at its size in bytes. `limited`: it has a quota, whether or not new volumes get one. */
export function sizeValues({ volumes }: StoreSettings, bytes: bigint, limited = false): NewValues {
  if (volumes.type === "volume") return { refreservation: volumes.thick ? "auto" : "0" };
  return {
    ...((volumes.quotas || limited) && { refquota: String(bytes) }),
    ...(volumes.reservation && { refreservation: String(bytes) }),
  };
}

/** The block size of a new volume, as ZFS takes it; undefined for file systems. Throws "invalid-argument". */
export function blockSizeOf({ volumes }: StoreSettings, parameters: Context): string | undefined {
  if (volumes.type !== "volume") return undefined;
  const block = (chosen(parameters)["volblocksize"] ?? volumes.blocksize).toUpperCase();
  if (/^(?:512|1K|2K|4K|8K|16K|32K|64K|128K)$/.test(block)) return block;
  throw new CsiError("invalid-argument", "zfs.volblocksize must be 512, or 1K to 128K in powers of two");
}

/** All properties of a new volume: the connection's, the class's, csimux's own. Throws "invalid-argument" for unfit values. */
export function volumeValues(
  settings: StoreSettings,
  identity: ConnectionIdentity,
  spec: VolumeSpec,
  bytes: bigint,
): NewValues {
  const { volumes, sharing, datasetProperties } = settings;
  const block = blockSizeOf(settings, spec.parameters);
  const values: NewValues = {
    ...renderedAll(datasetProperties, spec.name, spec.parameters),
    ...(volumes.type === "volume" && volumes.compression && { compression: volumes.compression }),
    ...(volumes.type === "volume" && volumes.dedup && { dedup: volumes.dedup }),
    ...chosen(spec.parameters),
    ...mutableValues(spec.mutable ?? {}, settings),
    ...(block !== undefined && { volblocksize: block }),
    ...sharing,
    ...sizeValues(settings, bytes),
    [property.managed]: "true",
    [property.volumeName]: spec.name,
    ...markValues(identity),
    ...(spec.tenant && { [property.tenure]: tenureText({ ...spec.tenant, instance: identity.instanceId }) }),
    ...(spec.source && { [property.sourceKind]: spec.source.kind, [property.sourceId]: spec.source.id }),
    ...(spec.origin && { [property.copyOf]: copyOfText(spec.origin) }),
  };
  refuseUnfit(values);
  return values;
}

/** The values of notes of a share, each in a property of its own. */
export const noteValues = (notes: Notes): NewValues =>
  Object.fromEntries(Object.entries(notes).map(([key, value]) => [noteProperty(key), value]));

/** The values that finish a volume, with the last notes of its share. */
export function finishedValues(notes: Notes, { noteKeys, protocol }: StoreSettings): NewValues {
  const isKey = ([key]: readonly [string, string]) => noteKeys.includes(key);
  const all = Object.entries(notes);
  const context = Object.fromEntries(all.filter(each => !isKey(each)));
  return {
    ...noteValues(Object.fromEntries(all.filter(isKey))),
    [property.context]: contextText({ node_attach_driver: protocol, ...context }),
    [property.success]: "true",
  };
}

/** The values that a clone or an existing dataset accepts. */
export const laterValues = (values: NewValues): NewValues =>
  Object.fromEntries(Object.entries(values).filter(([name]) => !onCreation.has(name)));

/** Whose volumes are, in a property of each. The text that was read is compared with the one on the storage, under the lock of the dataset. */
export const datasetTenures = ({ zfs }: Pick<ZfsStorage, "zfs">): TenureStore<ZfsVolume> => ({
  identityOf: ({ guid }) => guid,
  async replace({ dataset, guid, tenureText: value = "" }, tenure, proved, { signal }) {
    const values = {
      [property.tenure]: tenureText(tenure),
      // Once only: a deletion that another controller has begun before is refused from then on.
      ...(tenure.released !== undefined && { [property.retained]: "true" }),
    };
    refuseUnfit(values);
    await zfs.set(dataset, values, signal, { guid, still: { property: property.tenure, value, proved } });
  },
});

/** All properties of a new snapshot; `bytes`: the size of its volume, 0 when unknown. */
export function snapshotValues(
  { snapshotProperties }: StoreSettings,
  of: {
    readonly name: string;
    readonly volume: string | undefined;
    readonly bytes: bigint;
    readonly parameters: Context;
  },
): NewValues {
  const values: NewValues = {
    ...renderedAll(snapshotProperties, of.name, of.parameters),
    [property.managed]: "true",
    [property.snapshotName]: of.name,
    ...(of.volume !== undefined && { [property.snapshotVolume]: of.volume }),
    [property.success]: "true",
    ...(of.bytes > 0n && { [property.bytes]: String(of.bytes) }),
  };
  refuseUnfit(values);
  return values;
}

import { CsiError } from "../../core/errors.ts";
import type { Context, VolumeSpec } from "../driver.ts";
import type { ConnectionIdentity } from "../module.ts";
import { rendered } from "../template.ts";
import { markValues } from "./marks.ts";
import { changes } from "./mutable.ts";
import { chosen } from "./parameters.ts";
import type { StoreSettings } from "./settings.ts";
import { property, refuseUnfit } from "./user-properties.ts";

/** Values of new datasets by property. */
export type NewValues = Readonly<Record<string, string>>;

/** Properties that only a new dataset takes: one made from another has them already (zfsprops(7)). */
const onCreation = new Set([
  ...["casesensitivity", "normalization", "utf8only", "volblocksize", "encryption", "keyformat", "pbkdf2iters"],
  "keylocation",
]);

/** Properties that a clone keeps from its origin, as democratic-csi has it. */
const ofOrigin = new Set(["aclmode", "aclinherit", "acltype"]);

const isOfOrigin = (name: string): boolean => onCreation.has(name) || ofOrigin.has(name);

/** The bytes of a block size such as "16K". */
export const blockBytes = (size: string): bigint =>
  size.endsWith("K") ? BigInt(size.slice(0, -1)) * 1024n : BigInt(size);

function templates(all: NewValues, name: string, parameters: Context): NewValues {
  return Object.fromEntries(
    Object.entries(all).map(([key, template]) => [key, rendered(template, { name, parameters })]),
  );
}

/** The properties that keep a volume at its size in bytes. */
export function sizeValues({ volumes }: StoreSettings, bytes: bigint): NewValues {
  if (volumes.type === "volume") return volumes.thick ? { refreservation: "auto" } : { refreservation: "0" };
  return {
    ...(volumes.quotas && { refquota: String(bytes) }),
    ...(volumes.reservation && { refreservation: String(bytes) }),
  };
}

/** The block size in which a new volume of these parameters is made, as ZFS takes it; undefined for file systems. */
export function blockSizeOf(settings: StoreSettings, parameters: Context): string | undefined {
  if (settings.volumes.type !== "volume") return undefined;
  const size = (chosen(parameters)["volblocksize"] ?? settings.volumes.blocksize).toUpperCase();
  if (/^(?:512|1K|2K|4K|8K|16K|32K|64K|128K)$/.test(size)) return size;
  throw new CsiError("invalid-argument", "zfs.volblocksize must be 512, or 1K to 128K in powers of two");
}

/**
 * All properties of a new volume of `bytes` bytes: those of the connection, then of the class, then those that are csimux's own.
 * Throws "invalid-argument" for values that ZFS could not keep.
 */
export function volumeValues(
  settings: StoreSettings,
  identity: ConnectionIdentity,
  spec: VolumeSpec,
  bytes: bigint,
): NewValues {
  const { volumes, sharing, datasetProperties } = settings;
  const block = blockSizeOf(settings, spec.parameters);
  const values: NewValues = {
    ...templates(datasetProperties, spec.name, spec.parameters),
    ...(volumes.type === "volume" && volumes.compression && { compression: volumes.compression }),
    ...(volumes.type === "volume" && volumes.dedup && { dedup: volumes.dedup }),
    ...chosen(spec.parameters),
    ...changes(spec.mutable ?? {}, settings),
    ...(block !== undefined && { volblocksize: block }),
    ...sharing,
    ...sizeValues(settings, bytes),
    [property.managed]: "true",
    [property.volumeName]: spec.name,
    ...markValues(identity),
    ...(spec.source && { [property.sourceKind]: spec.source.kind, [property.sourceId]: spec.source.id }),
  };
  for (const [name, value] of Object.entries(values)) refuseUnfit(name, value);
  return values;
}

/** Those of them that a dataset takes which exists already. */
export const laterValues = (values: NewValues): NewValues =>
  Object.fromEntries(Object.entries(values).filter(([name]) => !onCreation.has(name)));

/** Those of them that a clone takes. */
export const cloneValues = (values: NewValues): NewValues =>
  Object.fromEntries(Object.entries(values).filter(([name]) => !isOfOrigin(name)));

/** All properties of a new snapshot; `bytes`: the size of its volume, 0 when nobody knows. */
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
    ...templates(snapshotProperties, of.name, of.parameters),
    [property.managed]: "true",
    [property.snapshotName]: of.name,
    ...(of.volume !== undefined && { [property.snapshotVolume]: of.volume }),
    [property.success]: "true",
    ...(of.bytes > 0n && { [property.bytes]: String(of.bytes) }),
  };
  for (const [name, value] of Object.entries(values)) refuseUnfit(name, value);
  return values;
}

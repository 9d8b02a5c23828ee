import { type CapacityRange, insideRange, maxInt64, wantedBytes } from "../core/bytes.ts";
import { CsiError } from "../core/errors.ts";
import type { VolumeSpec } from "./driver.ts";
import type { StoredVolume, VolumeStore } from "./store.ts";

/**
 * The bytes of a volume created from a source of `least` bytes (0: none, or unknown): at least that many, if the limit allows them. Throws
 * "out-of-range".
 */
export function sizeFrom(range: CapacityRange, least: bigint): bigint {
  const wanted = wantedBytes(range);
  if (wanted >= least) return wanted;
  if (range.limit === undefined ? range.required === undefined : range.limit >= least) return least;
  throw new CsiError("out-of-range", `${wanted} bytes are less than the source's ${least}; ask for at least those`);
}

/**
 * The size in bytes to which a volume of `current` bytes (0: unknown) grows. A volume never shrinks, and one that is large enough stays
 * as it is. Throws "out-of-range" if it already exceeds the limit (CSI ControllerExpandVolume).
 */
export function grownSize(id: string, current: bigint, range: CapacityRange): bigint {
  const wanted = wantedBytes(range);
  if (range.limit !== undefined && current > range.limit)
    throw new CsiError("out-of-range", `volume "${id}" has ${current} bytes already and never shrinks`);
  return current >= wanted || (current > 0n && range.required === undefined) ? current : wanted;
}

/**
 * The size in bytes, at least `bytes`, in whole units of the storage system. Throws "out-of-range" if it exceeds the limit, or the largest
 * size that CSI can express (CSI CapacityRange.limit_bytes).
 */
export function wholeUnits(bytes: bigint, unit: bigint, limit: bigint | undefined): bigint {
  const whole = ((bytes + unit - 1n) / unit) * unit;
  const most = limit ?? maxInt64;
  if (whole <= most) return whole;
  throw new CsiError(
    "out-of-range",
    `${whole} bytes, the least in which ${bytes} can be had, exceed the limit of ${most}`,
  );
}

/** A size in bytes as a JSON number, which most readers take for a double (RFC 8259, 6). Throws "out-of-range" above 2^53 - 1. */
export function jsonSize(bytes: bigint): number {
  if (bytes <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(bytes);
  throw new CsiError("out-of-range", `${bytes} bytes are more than the API accepts: ${Number.MAX_SAFE_INTEGER}`);
}

/** Throws "already-exists" if `asset` does not satisfy `spec` (CSI CreateVolume, "Volume already exists but is incompatible"). */
export function checkSameRequest(
  connection: string,
  store: Pick<VolumeStore<StoredVolume>, "sameSource">,
  spec: VolumeSpec,
  asset: StoredVolume,
): void {
  const { name, source, range } = spec;
  const exists = (why: string) =>
    new CsiError("already-exists", `connection "${connection}": volume "${name}" exists ${why}`);
  if (asset.name !== undefined && asset.name !== name) throw exists(`with this id as "${asset.name}"`);
  const { tenure } = asset;
  if (tenure && tenure.holder !== "" && tenure.holder !== name)
    throw exists(`and belongs to "${tenure.holder.slice(0, 128)}" of claim ${tenure.claim?.slice(0, 300)} now`);
  if (!isSame(store, source, asset.source) || spec.origin?.handle !== asset.copyOf?.handle)
    throw exists("with another source, or with one that nothing proves; delete it first");
  if (asset.bytes > 0n && !insideRange(asset.bytes, range))
    throw exists(`with ${asset.bytes} bytes, which is outside the range asked for`);
}

function isSame(
  store: Pick<VolumeStore<StoredVolume>, "sameSource">,
  a: VolumeSpec["source"],
  b: VolumeSpec["source"],
): boolean {
  if (!a || !b) return a === b;
  return store.sameSource?.(a, b) ?? (a.kind === b.kind && a.id === b.id);
}

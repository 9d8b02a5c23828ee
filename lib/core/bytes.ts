import { CsiError } from "./errors.ts";

/** A size request in bytes; undefined means "not given" (CSI CapacityRange). */
export interface CapacityRange {
  readonly required: bigint | undefined;
  readonly limit: bigint | undefined;
}

/** The default size of a volume: 1 GiB, as in democratic-csi. */
const defaultBytes = 1n << 30n;

/** The largest number that a field of CSI can have: sizes and counts are of the type int64 (csi.proto). */
export const maxInt64 = 2n ** 63n - 1n;

/**
 * The size in bytes requested by a range: `required`, else `limit`, else 1 GiB. Throws "out-of-range" if required exceeds limit, or a
 * value is not a size that a volume can have: from 1 byte to the largest int64 (CSI CreateVolume, "Unsupported capacity_range").
 */
export function wantedBytes(range: CapacityRange): bigint {
  const { required, limit } = range;
  for (const bytes of [required, limit])
    if (bytes !== undefined && (bytes < 1n || bytes > maxInt64))
      throw new CsiError("out-of-range", `capacity_range contains ${bytes} bytes; a volume has from 1 to ${maxInt64}`);
  if (required !== undefined && limit !== undefined && required > limit) {
    throw new CsiError("out-of-range", `required_bytes ${required} exceeds limit_bytes ${limit}`);
  }
  return required ?? limit ?? defaultBytes;
}

/** Whether an existing size in bytes is inside the range. */
export const insideRange = (bytes: bigint, range: CapacityRange): boolean =>
  bytes >= (range.required ?? 0n) && (range.limit === undefined || bytes <= range.limit);

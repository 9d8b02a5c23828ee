import { CsiError } from "./errors.ts";

/** A size request in bytes; undefined means "not given" (CSI CapacityRange). */
export interface CapacityRange {
  readonly required: bigint | undefined;
  readonly limit: bigint | undefined;
}

/** The default size of a volume: 1 GiB, as in democratic-csi. */
const defaultBytes = 1n << 30n;

/** The largest size that an answer can name (CSI Volume.capacity_bytes is an int64). */
export const mostBytes = 2n ** 63n - 1n;

/**
 * The size in bytes requested by a range: `required`, else `limit`, else 1 GiB. Throws "out-of-range" if required exceeds limit, or a
 * value is not a size that a volume can have: from 1 byte to the largest int64 (CSI CreateVolume, "Unsupported capacity_range").
 */
export function wantedBytes(range: CapacityRange): bigint {
  const { required, limit } = range;
  for (const bytes of [required, limit])
    if (bytes !== undefined && (bytes < 1n || bytes > mostBytes))
      throw new CsiError("out-of-range", `capacity_range contains ${bytes} bytes; a volume has from 1 to ${mostBytes}`);
  if (required !== undefined && limit !== undefined && required > limit) {
    throw new CsiError("out-of-range", `required_bytes ${required} exceeds limit_bytes ${limit}`);
  }
  return required ?? limit ?? defaultBytes;
}

/** Whether an existing size in bytes is inside the range. */
export const insideRange = (bytes: bigint, range: CapacityRange): boolean =>
  bytes >= (range.required ?? 0n) && (range.limit === undefined || bytes <= range.limit);

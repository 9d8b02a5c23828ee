import { CsiError } from "./errors.ts";

/** A size request in bytes; a missing member is "not given" (CSI CapacityRange). */
export interface CapacityRange {
  readonly required: bigint | undefined;
  readonly limit: bigint | undefined;
}

/** The size of a volume when the request names none: 1 GiB, as democratic-csi does. */
const defaultBytes = 1n << 30n;

/**
 * The size in bytes that a range asks for: `required`, else `limit`, else 1 GiB.
 * Throws "out-of-range" when required exceeds limit or a value is negative (CSI CreateVolume, "Unsupported capacity_range").
 */
export function wantedBytes(range: CapacityRange): bigint {
  const { required, limit } = range;
  if ((required ?? 0n) < 0n || (limit ?? 0n) < 0n)
    throw new CsiError("out-of-range", "capacity_range holds a negative size");
  if (required !== undefined && limit !== undefined && required > limit) {
    throw new CsiError("out-of-range", `required_bytes ${required} exceeds limit_bytes ${limit}`);
  }
  return required ?? limit ?? defaultBytes;
}

/** Whether an existing size in bytes lies inside the range. */
export const insideRange = (bytes: bigint, range: CapacityRange): boolean =>
  bytes >= (range.required ?? 0n) && (range.limit === undefined || bytes <= range.limit);

import { CsiError } from "../core/errors.ts";

/** The longest string in bytes unless the specification says otherwise (CSI "Size Limits"). */
const maxStringBytes = 128;

/** Characters that names must not contain (CSI CreateVolumeRequest.name). */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this is the list of forbidden control characters
const forbidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;

/** Throws "invalid-argument" if a required field is empty (CSI "Required"). */
export function required(value: string, field: string): string {
  if (value === "") throw new CsiError("invalid-argument", `${field} is missing`);
  return value;
}

/** The value of a required message field; throws "invalid-argument" if it is missing. */
export function requiredMessage<T>(value: T | undefined, field: string): T {
  if (value === undefined) throw new CsiError("invalid-argument", `${field} is missing`);
  return value;
}

/**
 * The caller's name for a new object: present, short enough, without control characters; else throws
 * "invalid-argument".
 */
export function requiredName(value: string, field = "name"): string {
  required(value, field);
  if (Buffer.byteLength(value) > maxStringBytes)
    throw new CsiError("invalid-argument", `${field} is longer than ${maxStringBytes} bytes`);
  if (forbidden.test(value)) throw new CsiError("invalid-argument", `${field} contains a control character`);
  return value;
}

/** Throws "invalid-argument" for an empty list. */
export function requiredList<T>(list: readonly T[], field: string): readonly T[] {
  if (list.length === 0) throw new CsiError("invalid-argument", `${field} is missing`);
  return list;
}

/** A page size; throws "invalid-argument" if it is negative. */
export function pageSize(max: number): number {
  if (max < 0) throw new CsiError("invalid-argument", "max_entries is negative");
  return max;
}

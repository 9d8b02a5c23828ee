import { createHash } from "node:crypto";

type Value = string | boolean | undefined | readonly string[] | { readonly [key: string]: Value };

/** A hash of plain values that ignores the order of keys and treats a missing key as undefined. */
export const digest = (value: Value): string => createHash("sha256").update(ordered(value)).digest("hex");

function ordered(value: Value): string {
  if (typeof value !== "object" || Array.isArray(value)) return JSON.stringify(value ?? null);
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{${entries
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, item]) => `${JSON.stringify(key)}:${ordered(item)}`)
    .join()}}`;
}

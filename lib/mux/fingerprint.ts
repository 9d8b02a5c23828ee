/** A function for JSON.stringify: sizes as text, the entries of an object in the order of their keys. */
function plain(_: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
}

/**
 * A text that is equal for requests that ask for the same. The entries of a map travel in any order (protocol buffers, "Maps"),
 * and Go clients change it with every repeat.
 */
export const fingerprint = (request: unknown): string => JSON.stringify(request, plain);

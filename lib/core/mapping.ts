/** A mapping of YAML, or an object of JSON. */
export type Mapping = Readonly<Record<string, unknown>>;

/** Whether a parsed value is a mapping. */
export const isMapping = (value: unknown): value is Mapping =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The JSON object that a text is; undefined for any other text. */
export function mappingIn(text: string): Mapping | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isMapping(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A mapping as YAML gives it. */
export type Mapping = Readonly<Record<string, unknown>>;

/** Whether a value that YAML or JSON gave is a mapping. */
export const isMapping = (value: unknown): value is Mapping =>
  typeof value === "object" && value !== null && !Array.isArray(value);

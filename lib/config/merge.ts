import type { GenericSchema } from "valibot";
import { aboutOf, shapeOf } from "./shape.ts";
import { isMapping, type Mapping } from "./tidy.ts";

/** `over` on top of `base`: mappings by key, anything else replaces, an empty value (null) removes what is below. */
export function merge(base: Mapping, over: Mapping): Mapping {
  const result: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const below = Object.hasOwn(base, key) ? base[key] : undefined;
    result[key] = isMapping(below) && isMapping(value) ? merge(below, value) : value;
  }
  return result;
}

/** The part of `values` that the schema knows: what a driver can inherit from defaults that serve other drivers too. */
export function inheritable(schema: GenericSchema, values: Mapping): Mapping {
  const shape = shapeOf(schema);
  if (shape.kind !== "mapping") return values;
  const { aliases, ignored } = aboutOf(schema);
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(values)) {
    const inner = shape.keys.get(key);
    if (inner) result[key] = isMapping(value) ? inheritable(inner, value) : value;
    else if ((aliases && Object.hasOwn(aliases, key)) || (ignored && Object.hasOwn(ignored, key))) result[key] = value;
    else if (key.endsWith("File") && shape.keys.has(key.slice(0, -4))) result[key] = value;
  }
  return result;
}

import type { GenericSchema } from "valibot";
import { isMapping, type Mapping } from "../core/mapping.ts";
import type { Path } from "./finding.ts";
import { aboutOf, schemaAt, shapeOf } from "./shape.ts";

/** The canonical key of a spelling: the target of an alias, the secret of `<key>File`, else the key itself. */
function canonical(schema: GenericSchema, key: string): string {
  const { aliases } = aboutOf(schema);
  if (aliases && Object.hasOwn(aliases, key)) return aliases[key] ?? key;
  const plain = key.endsWith("File") ? key.slice(0, -4) : key;
  const secret = plain === key ? undefined : schemaAt(schema, [plain]);
  return secret && aboutOf(secret).secret ? plain : key;
}

/**
 * Merges `over` onto `base`: mappings by key; any other value replaces, and an empty one (null) removes the value
 * below. A key replaces its other spellings, for example `passwordFile` a `password` below. `schema` knows the
 * spellings; undefined: none.
 */
export function merge(schema: GenericSchema | undefined, base: Mapping, over: Mapping): Mapping {
  const meaning = (key: string): string => (schema ? canonical(schema, key) : key);
  const replaced = new Set(Object.keys(over).map(meaning));
  const kept = Object.entries(base).filter(([key]) => Object.hasOwn(over, key) || !replaced.has(meaning(key)));
  const result: Record<string, unknown> = Object.fromEntries(kept);
  for (const [key, value] of Object.entries(over)) {
    const below = Object.hasOwn(base, key) ? base[key] : undefined;
    const inner = schema && schemaAt(schema, [key]);
    result[key] = isMapping(below) && isMapping(value) ? merge(inner, below, value) : value;
  }
  return result;
}

/** The part of `values` that the schema knows: what a driver can inherit from defaults shared with other drivers. */
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

/** A key of the defaults that no driver inherits, and the keys of the schemas next to it. */
export interface UnknownKey {
  readonly path: Path;
  readonly known: readonly string[];
}

/** The keys of `values` unknown to all of the schemas. */
export function unknownKeysIn(
  schemas: readonly GenericSchema[],
  values: Mapping,
  path: Path = [],
): readonly UnknownKey[] {
  const shapes = schemas.map(shapeOf);
  // If a schema accepts any key, none is unknown.
  if (shapes.length === 0 || shapes.some(({ kind }) => kind !== "mapping")) return [];
  const mappings = shapes.flatMap(shape => (shape.kind === "mapping" ? [shape] : []));
  return Object.entries(values).flatMap(([key, value]) => {
    const inner = mappings.flatMap(({ keys }) => keys.get(key) ?? []);
    const here = [...path, key];
    if (inner.length > 0) return isMapping(value) ? unknownKeysIn(inner, value, here) : [];
    if (schemas.some(schema => Object.keys(inheritable(schema, { [key]: value })).length > 0)) return [];
    return [{ path: here, known: [...new Set(mappings.flatMap(({ keys }) => [...keys.keys()]))] }];
  });
}

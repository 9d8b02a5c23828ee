import * as v from "valibot";
import type { About, AboutRecord } from "./parts.ts";

/** The values that a schema accepts, as data: for documentation, normalization and suggestions. */
export type Shape =
  | { readonly kind: "mapping"; readonly keys: ReadonlyMap<string, v.GenericSchema> }
  | { readonly kind: "free-mapping"; readonly value: v.GenericSchema }
  | { readonly kind: "list"; readonly item: v.GenericSchema }
  | { readonly kind: "either"; readonly options: readonly v.GenericSchema[] }
  | { readonly kind: "words"; readonly words: readonly (string | number)[] }
  | { readonly kind: "text" | "number" | "flag" | "any" };

/** Any schema; for code that only passes schemas on. */
export type Schema = v.GenericSchema;

/** The fields of valibot's schema objects that are read here; their presence depends on `type`. */
interface ValibotFields {
  readonly type: string;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
  readonly item?: v.GenericSchema;
  readonly value?: v.GenericSchema;
  readonly wrapped?: v.GenericSchema;
  readonly options?: readonly unknown[];
  readonly default?: unknown;
  readonly literal?: string | number;
}

const internals = (schema: v.GenericSchema): ValibotFields => schema as unknown as ValibotFields;

const shapes = new WeakMap<v.GenericSchema, Shape>();
const abouts = new WeakMap<v.GenericSchema, Partial<About & AboutRecord>>();

/** The shape of a schema, seen through `optional` and pipes. */
export function shapeOf(schema: v.GenericSchema): Shape {
  const known = shapes.get(schema);
  if (known) return known;
  const shape = read(internals(schema));
  shapes.set(schema, shape);
  return shape;
}

function read(schema: ValibotFields): Shape {
  const { type, entries, item, value, wrapped, options, literal } = schema;
  if (wrapped) return shapeOf(wrapped);
  if (entries) return { kind: "mapping", keys: new Map(Object.entries(entries)) };
  if (type === "array" && item) return { kind: "list", item };
  if (type === "record" && value) return { kind: "free-mapping", value };
  if (type === "picklist") return { kind: "words", words: (options ?? []) as readonly (string | number)[] };
  if (type === "literal" && literal !== undefined) return { kind: "words", words: [literal] };
  if (type === "union" || type === "variant")
    return { kind: "either", options: (options ?? []) as readonly v.GenericSchema[] };
  if (type === "string") return { kind: "text" };
  if (type === "number") return { kind: "number" };
  return { kind: type === "boolean" ? "flag" : "any" };
}

/** The description of a key: text, unit, secrecy, other spellings. */
export function aboutOf(schema: v.GenericSchema): Partial<About & AboutRecord> {
  const known = abouts.get(schema);
  if (known) return known;
  const { wrapped } = internals(schema);
  const about: Partial<About & AboutRecord> = { ...(wrapped ? aboutOf(wrapped) : {}), ...v.getMetadata(schema) };
  abouts.set(schema, about);
  return about;
}

/** Whether the key may be absent. */
export const isOptional = (schema: v.GenericSchema): boolean =>
  ["optional", "exact_optional", "nullish"].includes(internals(schema).type);

/** The literal value of an absent key, if the schema states one. */
export const fallbackOf = (schema: v.GenericSchema): unknown => internals(schema).default;

/** The schema of the value at `path`, or undefined if the schema does not describe it. */
export function schemaAt(schema: v.GenericSchema, path: readonly (string | number)[]): v.GenericSchema | undefined {
  const [step, ...rest] = path;
  if (step === undefined) return schema;
  const shape = shapeOf(schema);
  if (shape.kind === "mapping") {
    const { aliases } = aboutOf(schema);
    const key = String(step);
    const next = shape.keys.get(key) ?? shape.keys.get((aliases && Object.hasOwn(aliases, key) && aliases[key]) || key);
    return next && schemaAt(next, rest);
  }
  if (shape.kind === "free-mapping") return schemaAt(shape.value, rest);
  if (shape.kind === "list") return schemaAt(shape.item, rest);
  if (shape.kind !== "either") return undefined;
  return shape.options.map(option => schemaAt(option, path)).find(found => found !== undefined);
}

/** The keys listed by a mapping's schema; none for any other schema. */
export function keysOf(schema: v.GenericSchema): Iterable<string> {
  const shape = shapeOf(schema);
  return shape.kind === "mapping" ? shape.keys.keys() : [];
}

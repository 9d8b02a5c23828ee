import * as v from "valibot";
import { Invalid, type Triple } from "./failure.ts";

/** The servers' request models. */

/** `value` as the schema reads it, without any conversion; each problem is reported under `prefix` (api/base/handler/accept.py of 25.10.6). */
export function modelled<S extends v.GenericSchema>(schema: S, value: unknown, prefix: string): v.InferOutput<S> {
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  throw new Invalid(
    ...result.issues.map((issue): Triple => {
      const path = [prefix, ...(issue.path ?? []).map(item => String(item.key))].join(".");
      return [path, issue.type === "strict_object" ? "Extra inputs are not permitted" : issue.message, 22];
    }),
  );
}

type Fields = Record<string, unknown>;

/** Up to 25.04 numbers and text turn into each other (schema/integer_schema.py and string_schema.py of 24.10.2.4, schema.py of 13.0-U6.3). */
function converted<S extends v.GenericSchema>(schema: S, value: unknown): unknown {
  const copy = structuredClone(value);
  for (const { path = [], type } of v.safeParse(schema, copy).issues ?? []) {
    const keys = path.map(item => String(item.key));
    const last = keys.pop() ?? "";
    const holder = keys.reduce<unknown>((each, key) => (each as Fields)[key], copy) as Fields;
    const found = holder?.[last];
    if (type === "number" && typeof found === "string" && /^\s*[-+]?[0-9]+\s*$/.test(found))
      holder[last] = Number(found);
    if (type === "string" && typeof found === "number") holder[last] = String(found);
  }
  return copy;
}

/**
 * As modelled(), for methods of the older kind of model, which pool.dataset.*, zfs.snapshot.* and filesystem.* have up to 25.04:
 * an unknown field is reported in other words (schema/dict_schema.py of 24.10.2.4), on CORE by its name alone (schema.py of 13.0-U6.3).
 */
export function modelledOld<S extends v.GenericSchema>(
  nas: { readonly number: number },
  schema: S,
  value: unknown,
  prefix: string,
): v.InferOutput<S> {
  const result = v.safeParse(schema, converted(schema, value));
  if (result.success) return result.output;
  throw new Invalid(
    ...result.issues.map((issue): Triple => {
      const path = (issue.path ?? []).map(item => String(item.key));
      if (issue.type !== "strict_object") return [[prefix, ...path].join("."), issue.message, 22];
      return [(nas.number < 2000 ? path.slice(-1) : [prefix, ...path]).join("."), "Field was not expected", 22];
    }),
  );
}

/** Text of at most 1,024 characters, the limit of every field that is not declared long. */
export const text = v.pipe(v.string(), v.maxLength(1024, "String should have at most 1024 characters"));
export const whole = v.pipe(v.number(), v.integer("Input should be a valid integer"));
export const flag = v.boolean();
export const nothing = v.optional(v.null());
export const or = <S extends v.GenericSchema, const D>(schema: S, fallback: D) =>
  v.optional(schema, fallback as v.InferInput<S>);
export const maybe = <S extends v.GenericSchema>(schema: S) => v.optional(v.nullable(schema), null);
export const texts = v.optional(v.array(text), []);

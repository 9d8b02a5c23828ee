import * as v from "valibot";
import { Invalid, type Triple } from "./failure.ts";

/** The servers' request models: no unknown keys, nothing is converted. */

/** `value` as the schema reads it; each problem is told under `prefix`. */
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

/** Text of at most 1,024 characters, the limit of every field that is not declared long. */
export const text = v.pipe(v.string(), v.maxLength(1024, "String should have at most 1024 characters"));
export const whole = v.pipe(v.number(), v.integer("Input should be a valid integer"));
export const flag = v.boolean();
export const nothing = v.optional(v.null());
export const or = <S extends v.GenericSchema, const D>(schema: S, fallback: D) =>
  v.optional(schema, fallback as v.InferInput<S>);
export const maybe = <S extends v.GenericSchema>(schema: S) => v.optional(v.nullable(schema), null);
export const texts = v.optional(v.array(text), []);

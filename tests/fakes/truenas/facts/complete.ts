import type { Nas } from "../state.ts";
import { type Checking, checkingOf, fits } from "./check.ts";
import type { Fields, Type } from "./facts.ts";

/** Requests as the server reads them: with the defaults that its models declare. */

type Values = Readonly<Record<string, unknown>>;

const isValues = (value: unknown): value is Values =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function filled(on: Checking, type: Type, value: unknown): unknown {
  if (typeof type === "string") {
    const named = on.facts.types[type];
    if (named !== undefined) return filled(on, named, value);
    // As problems() of check.ts takes them.
    if (on.converts && type === "int" && typeof value === "string") return Number(value);
    return on.converts && type === "str" && typeof value === "number" ? String(value) : value;
  }
  if (typeof value !== "object" || value === null) return value;
  if ("or" in type) {
    const fitting = type.or.find(each => fits(on, each, value));
    return fitting === undefined ? value : filled(on, fitting, value);
  }
  if ("list" in type && Array.isArray(value)) return value.map(each => filled(on, type.list, each));
  return "of" in type && isValues(value) ? withDefaults(on, type.of, value) : value;
}

function withDefaults(on: Checking, fields: Fields, value: Values): Values {
  const defaults = Object.entries(fields)
    .filter(([key, [mark]]) => mark === "default" && value[key] === undefined)
    .map(([key, [, type, fallback]]) => [key, filled(on, type, structuredClone(fallback ?? null))]);
  const given = Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .map(([key, each]) => [key, fields[key] ? filled(on, fields[key][1], each) : each]);
  return Object.fromEntries([...defaults, ...given]) as Values;
}

/**
 * An argument of a request that fits its model (checkRequest), with its defaults. `T` names what the method's rules read. Older schemas give
 * no defaults to a change (the attribute "update" of Patch, schema/patch.py of TS-24.10.2.4).
 */
export function completed<T>({ version }: Pick<Nas, "version">, name: string, given: unknown, at = 0): T {
  const { on, method } = checkingOf(version, name, []);
  const [, [, type, fallback]] = method?.args[at] ?? ["", ["required", "any"] as const];
  const value = given ?? fallback ?? {};
  const isChange = method?.kind === "schema" && name.endsWith(".update");
  return (isChange ? value : filled(on, type, value)) as T;
}

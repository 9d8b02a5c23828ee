import type { Nas } from "../state.ts";
import { type Checking, checkingOf, fits, rowTypeOf } from "./check.ts";
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

/** A value of a type, where a test's row has none. */
function neutral(on: Checking, type: Type): unknown {
  if (typeof type === "string") {
    const named = on.facts.types[type];
    if (named !== undefined) return neutral(on, named);
    return { str: "", int: 0, float: 0, bool: false, dict: {} }[type] ?? null;
  }
  if ("or" in type) return type.or.includes("null") ? null : neutral(on, type.or[0] ?? "null");
  if ("in" in type) return type.in[0];
  if ("list" in type) return [];
  if ("dict" in type) return {};
  if ("of" in type) return whole(on, type.of, {});
  return "str" in type ? "x".repeat(type.str[0] ?? 0) : (type.int[0] ?? 0);
}

function whole(on: Checking, fields: Fields, row: Values): Values {
  const missing = Object.entries(fields).filter(([key, [mark]]) => mark !== "absent" && row[key] === undefined);
  const added = missing.map(([key, [, type, fallback]]) => [key, structuredClone(fallback) ?? neutral(on, type)]);
  return { ...row, ...Object.fromEntries(added) };
}

/** A row that a test has put into a table with the fields that it is about, as the query of the table shows it: with all of its fields. */
export function wholeRow<R extends object>({ version }: Pick<Nas, "version">, query: string, row: R): R {
  const { on } = checkingOf(version, query, []);
  const type = rowTypeOf(on.facts, query);
  const known = typeof type === "string" ? on.facts.types[type] : type;
  return typeof known === "object" && "of" in known ? ({ ...whole(on, known.of, row as Values) } as R) : row;
}

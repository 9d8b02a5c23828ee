import { Invalid, type Triple } from "../failure.ts";
import { type Facts, type Fields, factsOf, type Mark, type MethodFacts, modelsOf, type Type } from "./facts.ts";

/** Compares requests and answers with the facts. */

/** What does not fit: where, and why. */
interface Problem {
  readonly path: readonly (string | number)[];
  readonly why: string;
}

/** What a value is compared with. */
export interface Checking {
  readonly facts: Facts;
  /** Fields that an answer must have: all that the server completes, where its model binds it. */
  readonly complete: readonly Mark[];
  /** Older schemas turn numbers and text into each other (schema/integer_schema.py and string_schema.py of TS-24.10.2.4). */
  readonly converts: boolean;
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const simple: Readonly<Record<string, (value: unknown, converts: boolean) => boolean>> = {
  any: () => true,
  null: value => value === null,
  str: (value, converts) => typeof value === "string" || (converts && typeof value === "number"),
  int: (value, converts) =>
    Number.isInteger(value) || (converts && typeof value === "string" && /^-?[0-9]+$/.test(value)),
  float: value => typeof value === "number",
  bool: value => typeof value === "boolean",
  dict: isObject,
};

/** The problems of a value of this type. */
function problems(on: Checking, type: Type, value: unknown): readonly Problem[] {
  if (typeof type === "string") {
    const named = on.facts.types[type];
    if (named !== undefined) return problems(on, named, value);
    return simple[type]?.(value, on.converts) ? [] : [{ path: [], why: `Input should be a valid ${type}` }];
  }
  if ("of" in type) return ofFields(on, type.of, value);
  if ("or" in type) return ofUnion(on, type.or, value);
  if ("in" in type) return type.in.includes(value) ? [] : [{ path: [], why: `Input should be ${type.in.join(", ")}` }];
  if ("list" in type) {
    if (!Array.isArray(value)) return [{ path: [], why: "Input should be a valid list" }];
    return value.flatMap((each, at) => below(at, problems(on, type.list, each)));
  }
  if ("dict" in type) {
    if (!isObject(value)) return [{ path: [], why: "Input should be a valid dictionary" }];
    return Object.entries(value).flatMap(([key, each]) => below(key, problems(on, type.dict, each)));
  }
  return ofLimits(on, type, value);
}

const below = (key: string | number, found: readonly Problem[]): readonly Problem[] =>
  found.map(({ path, why }) => ({ path: [key, ...path], why }));

function ofLimits(
  on: Checking,
  type: Extract<Type, { str: unknown } | { int: unknown }>,
  value: unknown,
): readonly Problem[] {
  const [kind, [least, most]] = "str" in type ? (["str", type.str] as const) : (["int", type.int] as const);
  if (!simple[kind]?.(value, on.converts)) return [{ path: [], why: `Input should be a valid ${kind}` }];
  const size = kind === "str" ? String(value).length : Number(value);
  const what = kind === "str" ? "String should have at" : "Input should be at";
  const unit = kind === "str" ? " characters" : "";
  if (least !== null && size < least) return [{ path: [], why: `${what} least ${least}${unit}` }];
  return most !== null && size > most ? [{ path: [], why: `${what} most ${most}${unit}` }] : [];
}

function ofFields(on: Checking, fields: Fields, value: unknown): readonly Problem[] {
  if (!isObject(value)) return [{ path: [], why: "Input should be a valid dictionary" }];
  const extra = on.converts ? "Field was not expected" : "Extra inputs are not permitted";
  const given = Object.entries(value).filter(([, each]) => each !== undefined);
  const unknown = given.filter(([key]) => !Object.hasOwn(fields, key)).map(([key]) => ({ path: [key], why: extra }));
  const wrong = given.flatMap(([key, each]) => {
    const field = Object.hasOwn(fields, key) ? fields[key] : undefined;
    return field ? below(key, problems(on, field[1], each)) : [];
  });
  const missing = Object.entries(fields)
    .filter(([key, [mark]]) => on.complete.includes(mark) && value[key] === undefined)
    .map(([key]) => ({ path: [key], why: "Field required" }));
  return [...unknown, ...wrong, ...missing];
}

/** The problems of the type that fits best: where the types have other words in a field, those decide. */
function ofUnion(on: Checking, types: readonly Type[], value: unknown): readonly Problem[] {
  const all = types.map(each => problems(on, each, value));
  const rank = (found: readonly Problem[]): number =>
    found.length +
    found.filter(({ path, why }) => path.length === 0 || (path.length === 1 && /^Input should be [A-Z_]+$/.test(why)))
      .length *
      100;
  return all.reduce((best, each) => (rank(each) < rank(best) ? each : best));
}

const methodOf = (facts: Facts, name: string): MethodFacts | undefined =>
  Object.hasOwn(facts.methods, name) ? facts.methods[name] : undefined;

/** What a version says about a method's requests. */
export function checkingOf(
  version: string,
  name: string,
  complete: readonly Mark[],
): { readonly on: Checking; readonly method: MethodFacts | undefined } {
  const facts = modelsOf(version);
  const method = methodOf(facts, name);
  return { on: { facts, complete, converts: method?.kind === "schema" }, method };
}

export const fits = (on: Checking, type: Type, value: unknown): boolean => problems(on, type, value).length === 0;

/** Throws what the server says about a request that does not fit its model. */
export function checkRequest(version: string, name: string, params: readonly unknown[]): void {
  const { on, method } = checkingOf(version, name, ["required"]);
  if (!method) return;
  const given = params.map(each => each ?? undefined);
  const found = method.args.flatMap(([key, [mark, type]], at): readonly Problem[] => {
    // Over REST an argument that the body lacks is there without a value.
    if (given[at] === undefined)
      return mark === "required" && params[at] === undefined ? [{ path: [key], why: "Field required" }] : [];
    return below(key, problems(on, type, given[at]));
  });
  const tooMany = params.length > method.args.length ? [{ path: [], why: "Too many arguments" }] : [];
  const all = [...found, ...tooMany];
  // CORE names the field alone (schema.py of TN-13.0-U6.3).
  const named = (path: Problem["path"]): string => (Number(version) < 20 ? path.slice(-1) : path).join(".");
  if (all.length > 0) throw new Invalid(...all.map(({ path, why }): Triple => [named(path), why, 22]));
}

/** The type of a row: a query's own model makes every field optional, that of the method which makes a row does not. */
export function rowTypeOf(facts: Facts, query: string): Type | undefined {
  const made = methodOf(facts, query.replace(/\.query$/, ".create"));
  return made?.kind === "pydantic" ? made.result : undefined;
}

/**
 * What in an answer does not fit the model of its method; empty if all of it does. Rows of a query are compared as whole ones, unless it
 * selects fields.
 */
export function wrongAnswer(
  version: string,
  name: string,
  result: unknown,
  params: readonly unknown[] = [],
): readonly string[] {
  const facts = factsOf(version);
  const method = facts && methodOf(facts, name);
  if (!facts || !method) return [];
  const { select = [] } = (name.endsWith(".query") ? (params[1] ?? {}) : {}) as {
    readonly select?: readonly unknown[];
  };
  const isBound = method.kind === "pydantic" || name === "filesystem.getacl";
  const complete = isBound && select.length === 0 ? (["required", "default"] as const) : [];
  const on: Checking = { facts, complete, converts: false };
  const row =
    complete.length > 0 && name.endsWith(".query") && Array.isArray(result) ? rowTypeOf(facts, name) : undefined;
  return problems(on, row === undefined ? method.result : { list: row }, result ?? null).map(
    ({ path, why }) => `${name}: ${["answer", ...path].join(".")}: ${why}`,
  );
}

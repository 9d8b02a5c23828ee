import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Facts, Fields, MethodFacts, Type } from "./facts.ts";

/** Reduces facts that were extracted from the middleware's models to what the double compares. See README.md of this folder's parent. */

/** A field or argument as the extraction names it. */
interface Extracted {
  readonly type?: string;
  readonly required?: boolean;
  readonly null?: boolean;
  readonly default?: unknown;
  readonly constraints?: readonly string[];
  readonly enum?: readonly string[];
  readonly max_length?: number;
  readonly additional?: boolean;
  readonly items?: readonly Extracted[];
  readonly fields?: Readonly<Record<string, never>>;
}

interface ExtractedMethod {
  readonly kind: "pydantic" | "schema";
  readonly file?: string;
  readonly service: string;
  readonly args: Readonly<Record<string, Extracted>>;
  readonly result?: Extracted;
}

type Models = Readonly<Record<string, Readonly<Record<string, Extracted>>>>;

/** Splits at a sign that is in no bracket or quotation marks. */
function split(text: string, sign: string): readonly string[] {
  const parts = [""];
  let depth = 0;
  let quoted = false;
  for (const each of text) {
    if (each === "'") quoted = !quoted;
    if (!quoted && /[[(<]/.test(each)) depth++;
    if (!quoted && /[\])>]/.test(each)) depth--;
    if (each === sign && depth === 0 && !quoted) parts.push("");
    else parts[parts.length - 1] += each;
  }
  return parts.map(part => part.trim()).filter(part => part !== "");
}

const limit = (text: string, name: string): number | undefined => {
  const found = new RegExp(`\\b${name}=(-?[0-9]+)`).exec(text)?.[1];
  return found === undefined ? undefined : Number(found);
};

/** A type with the limits that its declaration has. */
function limited(type: Type, text: string): Type {
  const [least, most] = type === "str" ? ["min_length", "max_length"] : ["ge", "le"];
  const [min, max] = [limit(text, least ?? ""), limit(text, most ?? "")];
  if ((type !== "str" && type !== "int") || (min === undefined && max === undefined)) return type;
  const limits = [min ?? null, max ?? null] as const;
  return type === "str" ? { str: limits } : { int: limits };
}

const or = (types: readonly Type[]): Type => {
  const [first = "any", ...more] = types;
  return more.length === 0 ? first : types.includes("any") ? "any" : { or: types };
};

function literal(text: string): Type {
  const values = split(text, ",").map(each => each.replace(/^<[\w.]+: (.*)>$/, "$1"));
  return {
    in: values.map(each => {
      if (each === "None") return null;
      if (each === "True" || each === "False") return each === "True";
      return each.startsWith("'") ? each.slice(1, -1) : Number(each);
    }),
  };
}

const plain: Readonly<Record<string, Type>> = {
  ...{ str: "str", int: "int", bool: "bool", float: "float", dict: "dict", list: { list: "any" } },
  ...{ None: "null", NoneType: "null", tuple: { list: "any" }, LongStringWrapper: "str" },
};

/** A type as Python shows it; `models` are those that it names. The extraction cut long ones, of which anything is taken. */
function typeOf(text: string, models: Models): Type {
  const union = split(text, "|").filter(each => each !== "model._NotRequired");
  if (union.length > 1) return or(union.map(each => typeOf(each, models)));
  const [only = "Any"] = union;
  const known = plain[only];
  if (known) return known;
  const open = only.indexOf("[");
  if (open >= 0 && only.endsWith("]")) {
    const inside = only.slice(open + 1, -1);
    const parts = split(inside, ",");
    const [first = "Any", second = "Any"] = parts;
    switch (only.slice(0, open)) {
      case "Literal":
        return literal(inside);
      case "Optional":
        return or([typeOf(inside, models), "null"]);
      case "Union":
        return or(parts.filter(each => each !== "model._NotRequired").map(each => typeOf(each, models)));
      case "list":
        return { list: typeOf(inside, models) };
      case "dict":
        return { dict: typeOf(second, models) };
      case "Annotated":
        return limited(typeOf(first, models), inside.slice(first.length));
      case "pydantic.types.Secret":
        return typeOf(inside, models);
    }
  }
  const name = only.split(".").at(-1) ?? "";
  if (models[name]) return modelOf(models[name]);
  const all = Object.values(models).map(modelOf);
  return only.startsWith("Optional[Annotated[Union[middlewared.") && all.length > 0 ? or([...all, "null"]) : "any";
}

const modelOf = (fields: Readonly<Record<string, Extracted>>): Type => ({ of: fieldsOf(fields) });

const fieldsOf = (fields: Readonly<Record<string, Extracted>>): Fields =>
  Object.fromEntries(
    Object.entries(fields).map(([name, each]) => {
      const absent =
        each.default === "(absent)" ||
        each.default === "(factory)" ||
        ("null" in each && !("default" in each)) ||
        String(each.default).startsWith("<") ||
        (each.type ?? "").includes("_NotRequired");
      const mark = each.required ? "required" : absent ? "absent" : "default";
      const fallback = defaultOf(each);
      return [name, fallback === null || mark !== "default" ? [mark, reduced(each)] : [mark, reduced(each), fallback]];
    }),
  );

/** The default of a field. A model's is shown as text, such as "recursive=False traverse=False": its fields have the same defaults. */
const defaultOf = ({ default: value }: Extracted): unknown =>
  typeof value === "string" && /^\w+=/.test(value) ? {} : (value ?? null);

/** A field of either kind: pydantic's models name their types as Python does, the older schemas have few names of their own. */
function reduced(each: Extracted): Type {
  const { type = "any" } = each;
  if (!("null" in each)) {
    const found = typeOf(type, (each.fields ?? {}) as Models);
    return limited(found, (each.constraints ?? []).join(" "));
  }
  const bare = older(each);
  return each.null ? or([bare, "null"]) : bare;
}

function older({ type = "any", enum: words, max_length, fields, additional, items }: Extracted): Type {
  if (words) return { in: type === "int" ? words.map(Number) : words };
  if (type === "dict")
    return fields && !additional ? { of: fieldsOf(fields as Readonly<Record<string, Extracted>>) } : "dict";
  if (type === "list") return { list: items?.length ? or(items.map(reduced)) : "any" };
  if (/^(?:str|dir|path|ipaddr|dataset|password|unixperm|file|sid)$/.test(type))
    return max_length === undefined ? "str" : { str: [null, max_length] };
  return type === "int" || type === "bool" || type === "float" ? type : "any";
}

/** Equal types are kept once, because most methods of a service share them. */
function shared(methods: Readonly<Record<string, MethodFacts>>): Pick<Facts, "methods" | "types"> {
  const count = new Map<string, number>();
  const walk = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    const text = JSON.stringify(value);
    count.set(text, (count.get(text) ?? 0) + 1);
    if (count.get(text) === 1) for (const each of Object.values(value)) walk(each);
  };
  walk(methods);
  const names = new Map<string, string>();
  const types: Record<string, Type> = {};
  const replaced = (value: unknown): unknown => {
    if (typeof value !== "object" || value === null) return value;
    const text = JSON.stringify(value);
    const isType =
      !Array.isArray(value) && Object.keys(value).length === 1 && /^\{"(?:of|or|in|list|dict|str|int)":/.test(text);
    const copy = (): unknown =>
      Array.isArray(value)
        ? value.map(replaced)
        : Object.fromEntries(Object.entries(value).map(([key, each]) => [key, replaced(each)]));
    if (!isType || (count.get(text) ?? 0) < 2 || text.length < 24) return copy();
    let name = names.get(text);
    if (name === undefined) {
      name = `$${names.size + 1}`;
      names.set(text, name);
      types[name] = copy() as Type;
    }
    return name;
  };
  return { methods: replaced(methods) as Record<string, MethodFacts>, types };
}

const [from] = process.argv.slice(2);
if (import.meta.main && from !== undefined) {
  const extracted = JSON.parse(readFileSync(from, "utf8")) as {
    readonly versions: Readonly<Record<string, { readonly tag: string }>>;
    readonly methods: Readonly<Record<string, Readonly<Record<string, ExtractedMethod | null>>>>;
  };
  // Methods that the extraction lacks, and answers that their model does not bind, read at the same tags.
  const byHand = JSON.parse(readFileSync(join(import.meta.dir, "by-hand.json"), "utf8")) as Readonly<
    Record<string, Readonly<Record<string, MethodFacts>>>
  >;
  for (const [version, { tag }] of Object.entries(extracted.versions)) {
    const methods: Record<string, MethodFacts> = { ...byHand[version] };
    for (const [name, versions] of Object.entries(extracted.methods)) {
      const method = versions[version];
      if (!method) continue;
      const args = Object.entries(fieldsOf(method.args));
      const result: Type = method.result ? reduced(method.result) : "any";
      methods[name] = { file: method.file ?? method.service, kind: method.kind, args, result };
    }
    Object.assign(methods, byHand[version]);
    writeFileSync(join(import.meta.dir, `${version}.json`), `${JSON.stringify({ tag, ...shared(methods) })}\n`);
  }
}

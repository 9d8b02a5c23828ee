import type { GenericSchema } from "valibot";
import { isMapping, type Mapping } from "../core/mapping.ts";
import { failure, type Path, type SchemaFinding, warning } from "./finding.ts";
import { holdsPlaceholder, isPlaceholder } from "./parts.ts";
import { aboutOf, shapeOf } from "./shape.ts";
import { unrecognizedKey, type Work } from "./unknown-keys.ts";
import { expanded, type ValueResolver } from "./value-resolver.ts";

/**
 * Converts the value to the form of the schema: renames other spellings, converts between numbers and text if the
 * meaning is certain, resolves references to the environment, omits empty and unknown keys. Every change is a finding.
 */
export function normalize(
  schema: GenericSchema,
  value: unknown,
  resolver: ValueResolver,
  siblings: readonly string[] = [],
): { value: unknown; findings: SchemaFinding[] } {
  const findings: SchemaFinding[] = [];
  const work: Work = { resolver, findings, root: schema, siblings };
  return { value: normalized(schema, value, [], work), findings };
}

function normalized(schema: GenericSchema, value: unknown, path: Path, work: Work): unknown {
  if (value === null || value === undefined) return undefined;
  const shape = shapeOf(schema);
  if (shape.kind === "either") return normalizedEither(schema, shape.options, value, path, work);
  if (isMapping(value)) {
    if (shape.kind === "mapping") return normalizedMapping(schema, shape.keys, value, path, work);
    if (shape.kind === "free-mapping") {
      work.findings.push(...lostKeys(value, path));
      return normalizedFree(shape.value, value, path, work);
    }
    return value;
  }
  if (Array.isArray(value)) {
    if (shape.kind === "mapping" || shape.kind === "free-mapping") {
      // valibot accepts a list as an object without keys.
      work.findings.push(failure("wrong-type", path, "expected a mapping, found a list", "write key: value"));
    }
    if (shape.kind !== "list") return value;
    return value.map((item, index) => normalized(shape.item, item, [...path, index], work) ?? null);
  }
  return normalizedScalar(schema, value, path, work);
}

/** Of several allowed shapes, uses the first that has the form of the value. */
function normalizedEither(
  schema: GenericSchema,
  options: readonly GenericSchema[],
  value: unknown,
  path: Path,
  work: Work,
): unknown {
  const wanted = isMapping(value) ? ["mapping", "free-mapping"] : Array.isArray(value) ? ["list"] : [];
  const option = options.find(each => wanted.includes(shapeOf(each).kind));
  return option ? normalized(option, value, path, work) : normalizedScalar(schema, value, path, work);
}

/** Free keys that valibot leaves out without a word (1.5, utils/_isValidObjectKey). */
const lost: readonly string[] = ["__proto__", "prototype", "constructor"];
const lostKeys = (value: Mapping, path: Path): readonly SchemaFinding[] =>
  Object.keys(value)
    .filter(key => lost.includes(key))
    .map(key => failure("invalid-value", [...path, key], `"${key}" cannot be a key`, "choose another name", "key"));

function normalizedFree(schema: GenericSchema, value: Mapping, path: Path, work: Work): Mapping {
  const entries = Object.entries(value).map(
    ([key, item]) => [key, normalized(schema, item, [...path, key], work)] as const,
  );
  return Object.fromEntries(entries.filter(([, item]) => item !== undefined));
}

function normalizedMapping(
  schema: GenericSchema,
  keys: ReadonlyMap<string, GenericSchema>,
  value: Mapping,
  path: Path,
  work: Work,
): Mapping {
  const result: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    const here = [...path, key];
    const known = keys.has(key) ? { name: key, item } : unrecognizedKey(schema, keys, value, key, here, work);
    const inner = known && keys.get(known.name);
    if (!known || !inner) continue;
    const inside = normalized(inner, known.item, here, work);
    if (inside !== undefined) result[known.name] = inside;
  }
  return result;
}

function normalizedScalar(schema: GenericSchema, value: unknown, path: Path, work: Work): unknown {
  // Only text as written: an empty variable is a mistake.
  if (value === "" && ["number", "flag"].includes(shapeOf(schema).kind)) return undefined;
  const read = aboutOf(schema).reading?.(value);
  if (read?.warning) work.findings.push(warning("retyped-value", path, ...read.warning));
  if (read) return read.value;
  if (typeof value !== "string") return retyped(schema, value, path, work, true);
  if (isPlaceholder(value)) {
    const message = `"${value}" is a placeholder from published examples`;
    work.findings.push(warning("placeholder-value", path, message, "write the real value"));
  } else if (holdsPlaceholder(value)) {
    const message = "this is the placeholder for a secret from the examples";
    work.findings.push(warning("placeholder-value", path, message, "write the real value"));
  }
  if (aboutOf(schema).expand === false) return retyped(schema, value, path, work, true);
  const filled = value.includes("$") ? expanded(value, path, work.resolver, work.findings) : value;
  return retyped(schema, filled, path, work, filled === value);
}

/** Converts the value to the type of its schema; `warn` adds a warning. */
function retyped(schema: GenericSchema, value: unknown, path: Path, work: Work, warn: boolean): unknown {
  const better = converted(schema, value);
  if (better === undefined) return value;
  if (warn) work.findings.push(warning("retyped-value", path, `${better.was}, but ${better.is} is meant`, better.fix));
  return better.value;
}

/** A value converted to the type of its schema, with the words for the warning. */
interface Converted {
  readonly value: unknown;
  /** The written type, the intended type, and how to write it: for people. */
  readonly was: string;
  readonly is: string;
  readonly fix: string;
}

/** Converts text to number or boolean and vice versa if only one meaning is possible; undefined otherwise. */
function converted(schema: GenericSchema, value: unknown): Converted | undefined {
  const shape = shapeOf(schema);
  if (shape.kind === "text" && (typeof value === "number" || typeof value === "boolean"))
    return asText(String(value), value);
  if (shape.kind === "words") {
    const word = shape.words.find(each => String(each) === String(value));
    if (word === undefined || word === value) return undefined;
    return typeof word === "string"
      ? asText(word, value)
      : { value: word, was: "text", is: "a number", fix: "remove the quotes" };
  }
  if (typeof value !== "string") return undefined;
  if (shape.kind === "number" && /^-?[0-9]{1,15}(?:\.[0-9]{1,6})?$/.test(value))
    return { value: Number(value), was: "text", is: "a number", fix: `write ${Number(value)} without quotes` };
  if (shape.kind === "flag" && /^(?:true|false)$/i.test(value)) {
    const word = value.toLowerCase();
    return { value: word === "true", was: "text", is: "true or false", fix: `write ${word} without quotes` };
  }
  if (shape.kind === "list" && value === "") return { value: [], was: "empty text", is: "a list", fix: "write []" };
  return undefined;
}

const asText = (value: string, was: unknown): Converted => ({
  value,
  was: typeof was === "number" ? "a number" : "true or false",
  is: "text",
  fix: "put the value in quotes",
});

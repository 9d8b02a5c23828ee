import type { GenericSchema } from "valibot";
import { type Finding, failure, type Path, problem, shownKey, warning } from "./finding.ts";
import { meant, nearest } from "./nearest.ts";
import { isPlaceholder } from "./parts.ts";
import { aboutOf, shapeOf } from "./shape.ts";

/** Where `${env:NAME}` and `<key>File` get their values. */
export interface Outside {
  /** Undefined when the variable is not set. */
  env(name: string): string | undefined;
  /** The content of a file, or undefined when it cannot be read. */
  file(path: string): string | undefined;
}

/** A mapping as YAML gives it. */
export type Mapping = Readonly<Record<string, unknown>>;

export const isMapping = (value: unknown): value is Mapping =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const reference = /\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}/g;
const foreignReference = /^\$[A-Z_][A-Z0-9_]*$|\$\{[A-Za-z_][A-Za-z0-9_]*\}/;

/**
 * The value in the form that the schema wants: other spellings renamed, numbers and text exchanged where the meaning is
 * certain, references to the environment filled in, empty and unknown keys left out. Everything done is a finding.
 */
export function tidy(
  schema: GenericSchema,
  value: unknown,
  outside: Outside,
  siblings: readonly string[] = [],
): { value: unknown; findings: Finding[] } {
  const findings: Finding[] = [];
  const work: Work = { outside, findings, root: schema, siblings };
  return { value: tidied(schema, value, [], work), findings };
}

interface Work {
  readonly outside: Outside;
  readonly findings: Finding[];
  readonly root: GenericSchema;
  /** Further keys of the top mapping. */
  readonly siblings: readonly string[];
}

function tidied(schema: GenericSchema, value: unknown, path: Path, work: Work): unknown {
  if (value === null || value === undefined) return undefined;
  const shape = shapeOf(schema);
  if (shape.kind === "either") return tidied1of(schema, shape.options, value, path, work);
  if (isMapping(value)) {
    if (shape.kind === "mapping") return tidiedMapping(schema, shape.keys, value, path, work);
    if (shape.kind === "free-mapping") {
      work.findings.push(...strangers(aboutOf(schema).familiar ?? [], value, path));
      return tidiedFree(shape.value, value, path, work);
    }
    return value;
  }
  if (Array.isArray(value)) {
    if (shape.kind === "mapping" || shape.kind === "free-mapping") {
      // valibot takes a list for an object without keys.
      work.findings.push(failure("wrong-type", path, "expected a mapping, found a list", "write key: value"));
    }
    if (shape.kind !== "list") return value;
    return value.map((item, index) => tidied(shape.item, item, [...path, index], work) ?? null);
  }
  return tidiedScalar(schema, value, path, work);
}

/** Of several allowed shapes, the first that has the form of the value. */
function tidied1of(
  schema: GenericSchema,
  options: readonly GenericSchema[],
  value: unknown,
  path: Path,
  work: Work,
): unknown {
  const wanted = isMapping(value) ? ["mapping", "free-mapping"] : Array.isArray(value) ? ["list"] : [];
  const option = options.find(each => wanted.includes(shapeOf(each).kind));
  return option ? tidied(option, value, path, work) : tidiedScalar(schema, value, path, work);
}

/** Free keys that are probably misspelt: not usual, but nearly. */
function strangers(familiar: readonly string[], value: Mapping, path: Path): readonly Finding[] {
  if (familiar.length === 0) return [];
  return Object.keys(value).flatMap(key => {
    const near = familiar.includes(key) ? undefined : nearest(key, familiar);
    if (near === undefined || Object.hasOwn(value, near)) return [];
    const message = `"${key}" is handed on as it is, but nothing usual is called so`;
    return [warning("unusual-key", [...path, key], message, `did you mean "${near}"?`, "key")];
  });
}

function tidiedFree(schema: GenericSchema, value: Mapping, path: Path, work: Work): Mapping {
  const entries = Object.entries(value).map(
    ([key, item]) => [key, tidied(schema, item, [...path, key], work)] as const,
  );
  return Object.fromEntries(entries.filter(([, item]) => item !== undefined));
}

function tidiedMapping(
  schema: GenericSchema,
  keys: ReadonlyMap<string, GenericSchema>,
  value: Mapping,
  path: Path,
  work: Work,
): Mapping {
  const result: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    const here = [...path, key];
    const known = keys.has(key) ? { name: key, item } : otherSpelling(schema, keys, value, key, here, work);
    const inner = known && keys.get(known.name);
    if (!known || !inner) continue;
    const tidy = tidied(inner, known.item, here, work);
    if (tidy !== undefined) result[known.name] = tidy;
  }
  return result;
}

/** What to make of a key that the schema does not list; undefined when nothing. */
function otherSpelling(
  schema: GenericSchema,
  keys: ReadonlyMap<string, GenericSchema>,
  value: Mapping,
  key: string,
  path: Path,
  work: Work,
): { readonly name: string; readonly item: unknown } | undefined {
  const { aliases, ignored } = aboutOf(schema);
  const alias = aliases && Object.hasOwn(aliases, key) ? aliases[key] : undefined;
  if (alias !== undefined) {
    if (Object.hasOwn(value, alias)) {
      work.findings.push(
        failure("key-given-twice", path, `both "${key}" and "${alias}" are given`, `remove "${key}"`, "key"),
      );
      return undefined;
    }
    work.findings.push(
      warning("renamed-key", path, `"${key}" is another spelling of "${alias}"`, `write "${alias}"`, "key"),
    );
    return { name: alias, item: value[key] };
  }
  const reason = ignored && Object.hasOwn(ignored, key) ? ignored[key] : undefined;
  if (reason !== undefined) {
    work.findings.push(warning("ignored-key", path, `"${key}" has no effect: ${reason}`, "remove it", "key"));
    return undefined;
  }
  const plainName = key.endsWith("File") ? key.slice(0, -4) : "";
  const secret = keys.get(plainName);
  if (secret && aboutOf(secret).secret) return fromFile(plainName, value, key, path, work);
  work.findings.push(unknownKey(keys, key, path, work));
  return undefined;
}

/** In the place of a secret that could not be read; the finding about it keeps the file from being used. */
const unread = "(unread)";

function fromFile(
  name: string,
  value: Mapping,
  key: string,
  path: Path,
  work: Work,
): { readonly name: string; readonly item: unknown } | undefined {
  const { findings, outside } = work;
  if (Object.hasOwn(value, name) && value[name] !== null) {
    findings.push(
      failure("key-given-twice", path, `both "${key}" and "${name}" are given`, "remove one of the two", "key"),
    );
    return undefined;
  }
  const file = value[key];
  const content = typeof file === "string" ? outside.file(file) : undefined;
  if (content !== undefined) return { name, item: content.replace(/\r?\n$/, "") };
  findings.push(
    failure("unreadable-file", path, `"${key}" does not name a readable file`, "mount the file at this path"),
  );
  // Where the file is not expected, as in a CI job, the finding is passed over, and the key is given all the same.
  return typeof file === "string" && file !== "" ? { name, item: unread } : undefined;
}

function unknownKey(keys: ReadonlyMap<string, GenericSchema>, key: string, path: Path, work: Work): Finding {
  const known = [...keys.keys(), ...(path.length === 1 ? work.siblings : [])];
  const near = nearest(key, known);
  const elsewhere = near === undefined ? whereElse(work.root, key) : undefined;
  const few = known.length <= 12 ? `known here: ${known.join(", ")}` : "remove it";
  const glued = shownKey(key) !== key;
  const fix = glued
    ? 'put a space behind the ":"'
    : near
      ? meant(near)
      : elsewhere
        ? `it belongs under "${elsewhere}"; check the indentation`
        : few;
  return problem("unknown-key", path, `unknown key "${shownKey(key)}"`, fix, "key");
}

/** The dotted place of a key of this name somewhere else in the schema. */
function whereElse(schema: GenericSchema, key: string, path = "", depth = 0): string | undefined {
  const shape = shapeOf(schema);
  if (shape.kind !== "mapping" || depth === 4) return undefined;
  if (path !== "" && shape.keys.has(key)) return path;
  for (const [name, inner] of shape.keys) {
    const found = whereElse(inner, key, path === "" ? name : `${path}.${name}`, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

function tidiedScalar(schema: GenericSchema, value: unknown, path: Path, work: Work): unknown {
  if (typeof value !== "string") return retyped(schema, value, path, work, true);
  if (isPlaceholder(value)) {
    const message = `"${value}" stands in published examples where a real value belongs`;
    work.findings.push(warning("placeholder-value", path, message, "write the real one"));
  }
  if (aboutOf(schema).expand === false) return retyped(schema, value, path, work, true);
  const expanded = value.includes("$") ? expand(value, path, work) : value;
  return retyped(schema, expanded, path, work, expanded === value);
}

function expand(value: string, path: Path, work: Work): string {
  const expanded = value.replace(reference, (whole, name: string) => {
    const found = work.outside.env(name);
    if (found !== undefined) return found;
    const message = `the environment variable ${name} is not set`;
    work.findings.push(failure("unset-variable", path, message, `set ${name} for this process`));
    return whole;
  });
  if (expanded === value && foreignReference.test(value)) {
    const message = "this looks like a reference to the environment, but is taken literally";
    work.findings.push(warning("unexpanded-variable", path, message, "write ${env:NAME} if the variable is meant"));
  }
  return expanded;
}

/** Text as number or boolean and the other way round, where only one meaning is possible. */
function retyped(schema: GenericSchema, value: unknown, path: Path, work: Work, warn: boolean): unknown {
  const better = converted(schema, value);
  if (better === undefined) return value;
  if (warn) work.findings.push(warning("retyped-value", path, `${better.was}, but ${better.is} is meant`, better.fix));
  return better.value;
}

interface Converted {
  readonly value: unknown;
  readonly was: string;
  readonly is: string;
  readonly fix: string;
}

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
  if (shape.kind === "number" && /^-?[0-9]{1,15}(?:\.[0-9]{1,6})?$/.test(value)) {
    return { value: Number(value), was: "text", is: "a number", fix: `write ${Number(value)} without quotes` };
  }
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

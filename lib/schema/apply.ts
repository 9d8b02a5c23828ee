import * as v from "valibot";
import { dotted, failure, type Path, type SchemaFinding } from "./finding.ts";
import { meant, nearest } from "./nearest.ts";
import { normalize } from "./normalize.ts";
import { aboutOf, schemaAt, shapeOf } from "./shape.ts";
import type { ValueResolver } from "./value-resolver.ts";

/** The result of a check: the value, unless a finding blocks, and all findings. */
export interface Applied<T> {
  readonly value: T | undefined;
  /** The value in the schema's spelling and types even if it is invalid; for further rules. */
  readonly normalized: unknown;
  readonly findings: readonly SchemaFinding[];
}

/**
 * Checks a plain value against a schema. Never throws.
 * `siblings` are valid keys in addition to the schema's, handled by another schema; they are only suggested. `judged` may know more of an
 * unknown key.
 */
export function apply<S extends v.GenericSchema>(
  schema: S,
  raw: unknown,
  resolver: ValueResolver,
  siblings: readonly string[] = [],
  judged = (finding: SchemaFinding): SchemaFinding => finding,
): Applied<v.InferOutput<S>> {
  const { value: normalized, findings: found } = normalize(schema, raw, resolver, siblings);
  const findings = found.map(judged);
  const result = v.safeParse(schema, normalized ?? {});
  if (result.success) {
    const blocked = findings.some(finding => finding.blocks);
    return { value: blocked ? undefined : result.output, normalized, findings };
  }
  const reported = new Set(findings.filter(finding => finding.blocks).map(finding => dotted(subject(finding))));
  for (const issue of result.issues) {
    const finding = fromIssue(schema, issue, normalized, raw);
    if (finding.path.some((_, index) => reported.has(dotted(finding.path.slice(0, index + 1))))) continue;
    reported.add(dotted(finding.path));
    if (finding.rule === "missing-key" && mistyped(findings, finding)) continue;
    findings.push({ ...finding, path: asWritten(schema, finding.path, raw) });
  }
  return { value: undefined, normalized, findings };
}

/** A path of the schema with the spellings that the file has. */
function asWritten(schema: v.GenericSchema, path: Path, raw: unknown): Path {
  let here = raw;
  return path.map((step, index) => {
    const keys = typeof here === "object" && here !== null ? Object.keys(here) : [];
    const at = schemaAt(schema, path.slice(0, index));
    const aliases: Readonly<Record<string, string>> = (at && aboutOf(at).aliases) ?? {};
    const key = keys.includes(String(step)) ? step : (keys.find(each => aliases[each] === step) ?? step);
    here = valueAt(here, [key]);
    return key;
  });
}

/** The path that a finding is about: for an unreadable secret file, the secret's own key. */
function subject({ rule, path }: SchemaFinding): Path {
  const key = path.at(-1);
  return rule === "unreadable-file" && typeof key === "string" ? [...path.slice(0, -1), key.slice(0, -4)] : path;
}

/** Merges a missing required key with its mistyped spelling into one finding, which blocks. */
function mistyped(findings: SchemaFinding[], missing: SchemaFinding): boolean {
  const parent = dotted(missing.path.slice(0, -1));
  const fix = meant(String(missing.path.at(-1)));
  const index = findings.findIndex(
    each => each.rule === "unknown-key" && each.fix === fix && dotted(each.path.slice(0, -1)) === parent,
  );
  const typo = findings[index];
  if (typo === undefined) return false;
  findings[index] = { ...typo, fix: `${fix} That key is required`, blocks: true };
  return true;
}

const words: Readonly<Record<string, string>> = {
  mapping: "a mapping",
  "free-mapping": "a mapping",
  list: "a list",
  text: "text",
  number: "a number",
  flag: "true or false",
};

const kindOf = (value: unknown): string => {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a mapping";
  return { string: "text", number: "a number", boolean: "true or false" }[typeof value as string] ?? "something else";
};

function valueAt(value: unknown, path: Path): unknown {
  let here = value;
  for (const step of path) {
    if (typeof here !== "object" || here === null || !Object.hasOwn(here, step)) return undefined;
    here = (here as Readonly<Record<string | number, unknown>>)[step];
  }
  return here;
}

const isEmpty = (value: unknown, path: Path): boolean =>
  valueAt(value, path) === null && path.length > 0 && valueAt(value, path.slice(0, -1)) !== undefined;

function fromIssue(schema: v.GenericSchema, issue: v.BaseIssue<unknown>, normalized: unknown, raw: unknown) {
  const path: Path = (issue.path ?? []).map(item => (typeof item.key === "number" ? item.key : String(item.key)));
  const at = schemaAt(schema, path);
  const about = at ? aboutOf(at) : {};
  const name = path.at(-1);
  if (issue.path?.at(-1)?.origin === "key" && name !== undefined)
    return isEmpty(raw, path) ? empty(path, String(name), at) : missing(path, String(name), at);
  if (!issue.message.startsWith("Invalid ")) {
    const absent = path.length > 0 && valueAt(normalized, path) === undefined;
    return failure("invalid-value", path, issue.message, absent ? additionOf(name, at) : fixFor(at, issue.input));
  }
  const wanted = at ? (words[shapeOf(at).kind] ?? "another value") : "another value";
  const example = about.example === undefined ? plainFix(at) : `for example ${JSON.stringify(about.example)}`;
  return failure("wrong-type", path, `expected ${wanted}, found ${kindOf(issue.input)}`, example);
}

const plainFix = (schema: v.GenericSchema | undefined): string | undefined => {
  const kind = schema && shapeOf(schema).kind;
  if (kind === "flag") return "write true or false";
  if (kind === "list") return "write [value] or one value per line, each after a dash";
  return kind === "mapping" || kind === "free-mapping" ? "write its keys below it, indented" : undefined;
};

/** What to add for a missing key that another key requires. */
function additionOf(name: string | number | undefined, schema: v.GenericSchema | undefined): string | undefined {
  const { example } = schema ? aboutOf(schema) : {};
  if (typeof name !== "string" || example === undefined) return undefined;
  const text = typeof example === "object" ? JSON.stringify(example) : String(example);
  return `add "${name}: ${text}"`;
}

function empty(path: Path, name: string, schema: v.GenericSchema | undefined): SchemaFinding {
  const about = schema ? aboutOf(schema) : {};
  const kind = schema ? shapeOf(schema).kind : "any";
  const example = about.example === undefined ? "" : `, for example ${JSON.stringify(about.example)}`;
  const hint = about.description ? `: ${about.description}` : "";
  const what = kind === "mapping" ? "write its keys below it, indented" : `write a value after it${example}`;
  return failure("missing-key", path, `required key "${name}" is empty`, what + hint);
}

function missing(path: Path, name: string, schema: v.GenericSchema | undefined): SchemaFinding {
  const about = schema ? aboutOf(schema) : {};
  const kind = schema ? shapeOf(schema).kind : "any";
  const example = typeof about.example === "string" || typeof about.example === "number" ? ` ${about.example}` : "";
  const hint = about.description ? `: ${about.description}` : "";
  const fix = `add "${name}:${example}"${kind === "mapping" ? " with its keys" : ""}${hint}`;
  return failure("missing-key", path, `required key "${name}" is missing`, fix);
}

function fixFor(schema: v.GenericSchema | undefined, input: unknown): string | undefined {
  if (!schema) return undefined;
  const about = aboutOf(schema);
  const shape = shapeOf(schema);
  if (shape.kind === "words" && typeof input === "string") {
    const near = nearest(input, shape.words.map(String));
    if (near !== undefined) return meant(near);
  }
  return about.example === undefined ? undefined : `for example ${JSON.stringify(about.example)}`;
}

import { isAlias, isMap, isScalar, isSeq, type Node, type Pair } from "yaml";
import { commonSchema } from "../config/common.ts";
import { isMapping } from "../core/mapping.ts";
import type { DriverModule } from "../drivers/module.ts";
import type { Path } from "../schema/finding.ts";
import { aboutOf, type Schema, schemaAt } from "../schema/shape.ts";
import { onlyKey, printable } from "./excerpt.ts";
import type { ConnectionFile, MainDocument } from "./lint-input.ts";

type Range = readonly [start: number, end: number];

const maxColumns = 160;
const hidden = "***";

/** Whether the schema knows the key, and neither it nor a key around it is secret. Other keys may be mistyped secrets. */
const isPlain = (schema: Schema, path: Path): boolean =>
  path.length > 0 &&
  path.every((_, index) => {
    const here = schemaAt(schema, path.slice(0, index + 1));
    return here !== undefined && aboutOf(here).secret !== true;
  });

/** Whether the value at a path may be a secret. */
function secretPaths(file: MainDocument | ConnectionFile, modules: readonly DriverModule[]): (path: Path) => boolean {
  if ("proxy" in file) {
    // Defaults of connections may contain secrets.
    const schemas = modules.map(({ schema }) => schema);
    return path => path[0] !== "driver" && path[0] !== "proxy" && !schemas.some(schema => isPlain(schema, path));
  }
  const { source, diagnostics, module } = file.read;
  const schemas = [commonSchema, ...(module ? [module.schema] : [])];
  // A wrong value may be a secret that belongs to another key, as in `port: <password>`.
  const wrong = new Set(
    diagnostics
      .filter(({ rule }) => rule === "invalid-value" || rule === "wrong-type")
      .map(({ line, column }) => `${line}:${column}`),
  );
  return path => {
    const { line, column } = source.position(path, "value");
    return wrong.has(`${line}:${column}`) || !schemas.some(schema => isPlain(schema, path));
  };
}

/**
 * The text of a configuration file without secrets and comments, only the keys if it is not valid YAML; and the secrets,
 * to find them in other texts: each as a whole and line by line.
 */
export function maskedText(file: MainDocument | ConnectionFile, modules: readonly DriverModule[]) {
  const { source, text } = file.document;
  const isSecret = secretPaths(file, modules);
  const secrets = source.diagnostics.some(each => each.blocks) ? undefined : secretRanges(source.document, isSecret);
  let start = 0;
  const lines = text.replace(/^\uFEFF/, "").split("\n");
  const shown = lines.map(line => {
    const masked = secrets ? maskedLine(line, start, secrets) : onlyKey(line);
    start += line.length + 1;
    return printable(withoutUserInfo(withoutComment(masked.replace(/\r$/, ""))).slice(0, maxColumns));
  });
  return { text: shown.join("\n").replace(/\n{2,}/g, "\n"), secrets: secretValues(source.value, isSecret) };
}

function secretRanges(document: { readonly contents: unknown }, isSecret: (path: Path) => boolean): readonly Range[] {
  const ranges: Range[] = [];
  const walk = (node: unknown, path: Path, from?: number): void => {
    const hides = path.length === 0 || isSecret(path);
    if (isMap(node)) for (const pair of node.items) walkPair(pair, path, hides);
    else if (isSeq(node)) for (const [index, item] of node.items.entries()) walk(item, [...path, index]);
    else if ((isScalar(node) || isAlias(node)) && hides) hide(ranges, node, from);
  };
  const walkPair = ({ key, value }: Pair, path: Path, hides: boolean): void => {
    const isText = isScalar(key);
    // To YAML, "password:value" without a space is a key without a value, and so is a text in { }.
    if (isText && value === null && (hides || /[:=]/.test(String(key.value)))) hide(ranges, key);
    walk(value, [...path, isText ? String(key.value) : ""], isText ? key.range?.[1] : undefined);
  };
  walk(document.contents, []);
  return ranges.sort((a, b) => a[0] - b[0]);
}

/** Starts at the end of the key if it is known: an anchor or tag before the value may be its unquoted start. */
function hide(ranges: Range[], { range }: Node, keyEnd?: number): void {
  if (range) ranges.push([keyEnd === undefined ? range[0] : Math.min(keyEnd + 2, range[0]), range[1]]);
}

function maskedLine(text: string, start: number, secrets: readonly Range[]): string {
  let result = "";
  let from = start;
  for (const [first, last] of secrets) {
    if (last <= start || first >= start + text.length) continue;
    result += text.slice(from - start, Math.max(first - start, from - start)) + (last > first ? hidden : "");
    from = Math.min(last, start + text.length);
  }
  return result + text.slice(from - start);
}

const withoutComment = (text: string): string => text.replace(/(^|\s)#.*$/, "$1").trimEnd();

const withoutUserInfo = (text: string): string =>
  text.replace(/:\/\/[^/@\s"']+@/g, `://${hidden}@`).replace(/(?<![^\s"':@/])[^\s"':@/]+:[^\s"':@/]+@/g, `${hidden}@`);

/** Shorter words occur in every text, secret or not. */
const leastLength = 4;

function secretValues(whole: unknown, isSecret: (path: Path) => boolean): readonly string[] {
  const found: string[] = [];
  const walk = (value: unknown, path: Path): void => {
    if (Array.isArray(value)) for (const [index, item] of value.entries()) walk(item, [...path, index]);
    else if (isMapping(value)) for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key]);
    else if ((typeof value === "string" || typeof value === "number") && isSecret(path)) found.push(String(value));
  };
  walk(whole, []);
  const lines = found.flatMap(text => [text.trim(), ...text.split("\n").map(line => line.trim())]);
  return [...new Set(lines)].filter(text => text.length >= leastLength && !/^(?:true|false|null|\d{1,5})$/.test(text));
}

import { isAlias, isMap, isScalar, isSeq, type Node, type Pair } from "yaml";
import { isMapping } from "../core/mapping.ts";
import { hasHidden } from "../core/visible.ts";
import type { Path, Position } from "../schema/finding.ts";
import { manifestBudget } from "../yaml/budget.ts";
import type { SourceDocument } from "./document.ts";

/** The offending line, without secrets, and the column of the caret in it (from 1). */
export interface Excerpt {
  readonly line: string;
  readonly column: number;
}

type Range = readonly [start: number, end: number];

const maxColumns = 160;
const hidden = "***";

/** Makes excerpts of one document. */
export function excerpts(document: SourceDocument): (position: Position) => Excerpt | undefined {
  // A text over the limit is refused at its start, and may have millions of lines.
  const all = document.text.length > manifestBudget.bytes ? document.text.slice(0, maxColumns) : document.text;
  const body = all.startsWith("\uFEFF") ? all.slice(1) : all;
  let lines: readonly string[] | undefined;
  let starts: readonly number[] = [];
  let secrets: readonly Range[] = [];
  const broken = document.source.diagnostics.some(each => each.blocks);
  return ({ line, column }) => {
    if (!lines) {
      lines = body.split("\n");
      starts = startsOf(lines);
      secrets = broken ? [] : secretRanges(document);
    }
    const text = lines[line - 1];
    const start = starts[line - 1];
    if (text === undefined || start === undefined) return undefined;
    const shown = broken ? onlyKey(text) : masked(text, start, secrets);
    const plain = withoutUserInfo(withoutComment(shown.replace(/\r$/, "")));
    if (plain.trim() === "") return undefined;
    const safe = printable(plain.slice(0, maxColumns));
    return { line: safe, column: Math.min(Math.max(column, 1), safe.length + 1) };
  };
}

/** Replaces control characters, which must not reach a terminal; a tab becomes an arrow, because it may be the mistake. */
export const printable = (text: string): string =>
  [...text.replaceAll("\t", "→")].map(each => (each < " " || hasHidden(each) ? " " : each)).join("");

function startsOf(lines: readonly string[]): readonly number[] {
  const starts: number[] = [];
  let offset = 0;
  for (const line of lines) {
    starts.push(offset);
    offset += line.length + 1;
  }
  return starts;
}

function secretRanges({ isSecret, source }: SourceDocument): readonly Range[] {
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
  walk(source.document.contents, []);
  return ranges.sort((a, b) => a[0] - b[0]);
}

/** Starts at the end of the key if it is known: an anchor or tag before the value may be its unquoted start. */
function hide(ranges: Range[], { range }: Node, keyEnd?: number): void {
  if (range) ranges.push([keyEnd === undefined ? range[0] : Math.min(keyEnd + 2, range[0]), range[1]]);
}

function masked(text: string, start: number, secrets: readonly Range[]): string {
  let result = "";
  let from = start;
  for (const [first, last] of secrets) {
    if (last <= start || first >= start + text.length) continue;
    result += text.slice(from - start, Math.max(first - start, from - start)) + (last > first ? hidden : "");
    from = Math.min(last, start + text.length);
  }
  return result + text.slice(from - start);
}

/** Indentation and key only, for a file that cannot be parsed: its secrets are unknown. */
function onlyKey(text: string): string {
  const match = /^([\t ]*(?:-[\t ]+)?["']?[A-Za-z_][\w.-]{0,60}["']?[\t ]*:)([\t ]+)?(.*)$/.exec(text);
  if (match) return `${match[1]}${match[3]?.trim() ? ` ${hidden}` : ""}`;
  return text.trim() === "" ? "" : `${/^[\t ]*/.exec(text)?.[0] ?? ""}${hidden}`;
}

const withoutComment = (text: string): string => text.replace(/(^|\s)#.*$/, "$1").trimEnd();

const withoutUserInfo = (text: string): string =>
  text.replace(/:\/\/[^/@\s"']+@/g, `://${hidden}@`).replace(/(?<![^\s"':@/])[^\s"':@/]+:[^\s"':@/]+@/g, `${hidden}@`);

/** The text of a document without secrets and comments; only the keys if it is not valid YAML. */
export function maskedText(document: SourceDocument): string {
  const shown = excerpts(document);
  return document.text
    .split("\n")
    .map((_, index) => shown({ line: index + 1, column: 1 })?.line ?? "")
    .join("\n")
    .replace(/\n{2,}/g, "\n");
}

/** Shorter words occur in every text, secret or not. */
const leastLength = 4;

/** The secret values of a document, to find them in other texts: each as a whole and line by line. */
export function secretValues(document: SourceDocument): readonly string[] {
  const found: string[] = [];
  const walk = (value: unknown, path: Path): void => {
    if (Array.isArray(value)) for (const [index, item] of value.entries()) walk(item, [...path, index]);
    else if (isMapping(value)) for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key]);
    else if ((typeof value === "string" || typeof value === "number") && document.isSecret(path))
      found.push(String(value));
  };
  walk(document.source.value, []);
  const lines = found.flatMap(text => [text.trim(), ...text.split("\n").map(line => line.trim())]);
  return [...new Set(lines)].filter(text => text.length >= leastLength && !/^(?:true|false|null|\d{1,5})$/.test(text));
}

import { isCollection, LineCounter, parseAllDocuments, type YAMLParseError } from "yaml";
import { failure, located, type SchemaFinding } from "../schema/finding.ts";
import { eachNode } from "../yaml/nodes.ts";
import type { Source } from "../yaml/parse.ts";

/**
 * A source that YAML refuses, with the one finding that explains all of its syntax errors, where one is found: the parser says
 * where it stopped, which is often a line before or many lines behind the mistake. Others come back as they are.
 */
export function explained(source: Source, text: string): Source {
  const { errors } = source.document;
  const [first] = errors;
  if (!first || text.length > longestText || !source.diagnostics.some(({ rule }) => rule === "yaml-syntax"))
    return source;
  const body = text.startsWith("\uFEFF") ? text.slice(1) : text;
  const lines = body.split("\n");
  const line = lineOf(body, first.pos[0]);
  const cause =
    strangeSpace(lines, line) ?? openBracket(source, errors, body) ?? tab(errors, body) ?? oddIndent(lines, line);
  if (!cause) return source;
  const finding = failure("yaml-syntax", [], cause.message, cause.fix);
  return { ...source, diagnostics: [located(source.file, { line: cause.line, column: cause.column }, finding)] };
}

/** Trying repairs means reading the text again; a longer one is left as it is. */
const longestText = 64 << 10;

interface Cause extends Pick<SchemaFinding, "message" | "fix"> {
  readonly line: number;
  readonly column: number;
}

const lineOf = (text: string, offset: number): number => text.slice(0, offset).split("\n").length;

/** A space that looks like one and is none to YAML, in the indentation or behind a colon. */
const otherSpace =
  /^[ \t]*(?=[\u00A0\u2000-\u200B\u202F\u205F\u3000\uFEFF])|:(?=[\u00A0\u2000-\u200B\u202F\u205F\u3000\uFEFF])/;

function strangeSpace(lines: readonly string[], near: number): Cause | undefined {
  for (const line of [near, near - 1, near + 1]) {
    const found = otherSpace.exec(lines[line - 1] ?? "");
    if (!found) continue;
    const message = "a no-break space, or one of another width, stands here; YAML knows only plain spaces";
    return { line, column: found.index + found[0].length + 1, message, fix: "type the space anew" };
  }
  return undefined;
}

/** The bracket that was still open where the parser met something that cannot stand inside. */
function openBracket({ document }: Source, errors: readonly YAMLParseError[], text: string): Cause | undefined {
  const error = errors.find(({ message }) => /must (?:be sufficiently indented and )?end with a/.test(message));
  if (!error) return undefined;
  let opening: number | undefined;
  eachNode(document.contents, node => {
    const start = node.range?.[0];
    if (isCollection(node) && node.flow && start !== undefined && start < error.pos[0]) opening = start;
  });
  const sign = opening === undefined ? undefined : text[opening];
  if (opening === undefined || (sign !== "[" && sign !== "{")) return undefined;
  const message = `the bracket "${sign}" that opens here is not closed`;
  const fix = `close it with "${sign === "[" ? "]" : "}"}", or put the value in quotes`;
  return { line: lineOf(text, opening), column: opening - text.lastIndexOf("\n", opening - 1), message, fix };
}

function tab(errors: readonly YAMLParseError[], text: string): Cause | undefined {
  const error = errors.find(({ code }) => code === "TAB_AS_INDENT");
  if (!error) return undefined;
  const line = lineOf(text, error.pos[0]);
  return { line, column: 1, message: "a tab is used for indentation", fix: "use spaces" };
}

const keyLine = /^( *)(?:- +)?(?:"[^"]*"|'[^']*'|[^\s#:"'&*[\]{}-][^:#]*):(?:\s|$)/;

/** How far from the place where the parser stopped the line at fault is looked for. */
const linesBefore = 15;
const linesBehind = 3;

interface Repair {
  readonly line: number;
  readonly from: number;
  readonly to: number;
}

/** The line that, indented like one of its neighbours, makes the whole text right. */
function oddIndent(lines: readonly string[], near: number): Cause | undefined {
  const repairs = candidates(lines, near).filter(repair => isRight(repaired(lines, repair)));
  const [best] = repairs.sort(
    (a, b) => Math.abs(a.to - a.from) - Math.abs(b.to - b.from) || Math.abs(a.line - near) - Math.abs(b.line - near),
  );
  if (!best) return undefined;
  const { line, from, to } = best;
  const message = `the indentation of this line (${from}) does not fit the lines around it`;
  const orParent = to < from ? ", or add the key that it belongs under" : "";
  return { line, column: from + 1, message, fix: `indent it by ${to}${orParent}` };
}

function candidates(lines: readonly string[], near: number): readonly Repair[] {
  const indents = lines.map(line => keyLine.exec(line)?.[1]?.length);
  const all: Repair[] = [];
  for (let line = Math.max(1, near - linesBefore); line <= Math.min(lines.length, near + linesBehind); line++) {
    const from = indents[line - 1];
    if (from === undefined) continue;
    const before = indents.slice(0, line - 1).findLast(each => each !== undefined);
    const behind = indents.slice(line).find(each => each !== undefined);
    const wanted = new Set([before, behind, before === undefined ? undefined : before + 2]);
    for (const to of wanted) if (to !== undefined && to !== from) all.push({ line, from, to });
  }
  return all;
}

const repaired = (lines: readonly string[], { line, from, to }: Repair): string =>
  lines.with(line - 1, " ".repeat(to) + (lines[line - 1] ?? "").slice(from)).join("\n");

function isRight(text: string): boolean {
  const options = { merge: true, prettyErrors: false, uniqueKeys: false, logLevel: "error" } as const;
  const documents = parseAllDocuments(text, { ...options, lineCounter: new LineCounter() });
  return documents.every(({ errors }) => errors.length === 0);
}

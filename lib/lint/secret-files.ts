import { isScalar, Scalar } from "yaml";
import type { Mapping } from "../core/mapping.ts";
import type { Path, Position } from "../schema/finding.ts";
import { fileBudget } from "../yaml/budget.ts";
import { parseYamlDocuments, type YamlSource } from "../yaml/parse.ts";
import { type DocumentDiagnostic, nameOf, type SourceDocument } from "./document.ts";
import { type DocumentKind, hasSection, isConfiguration, kindOf, kindOfText } from "./kinds.ts";
import { mappingAt } from "./lint-input.ts";
import { report } from "./rule.ts";
import { readingRules } from "./rules/reading.ts";

/** A file inside a Secret or ConfigMap. */
export interface SecretFile {
  readonly name: string;
  readonly text: string;
  readonly start: Position;
  readonly outward: (position: Position) => Position | undefined;
}

/** The YAML files in `data` and `stringData` of the Secret at `path` of a manifest. */
export function secretFiles(
  source: YamlSource,
  manifestText: string,
  secret: Mapping,
  path: Path,
): readonly SecretFile[] {
  const plain = textFiles(source, manifestText, secret, [...path, "stringData"]);
  const encoded = Object.entries(mappingAt(secret, "data")).flatMap(([name, value]) => {
    const text = typeof value === "string" ? decoded(value) : undefined;
    if (text === undefined) return [];
    const start = source.position([...path, "data", name], "key");
    return [{ name, text, start, outward: () => undefined }];
  });
  return [...plain, ...encoded.filter(({ name }) => isFileName(name))];
}

const isFileName = (name: string): boolean => /\.ya?ml$/.test(name);

/** The YAML files in a mapping of texts, such as `data` of a ConfigMap; `path` is that of the mapping. */
export function textFiles(
  source: YamlSource,
  manifestText: string,
  object: Mapping,
  path: Path,
): readonly SecretFile[] {
  return Object.entries(mappingAt(object, String(path.at(-1)))).flatMap(([name, text]) =>
    typeof text === "string" && isFileName(name) ? [plainFile(source, manifestText, name, text, [...path, name])] : [],
  );
}

/** Decodes base64; undefined if it is not valid or not UTF-8 text. */
function decoded(value: string): string | undefined {
  const compact = value.replace(/\s+/g, "");
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(compact)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(compact, "base64"));
  } catch {
    return undefined;
  }
}

/** The file in the text at `path`. */
export function plainFile(
  source: YamlSource,
  manifestText: string,
  name: string,
  text: string,
  path: Path,
): SecretFile {
  const start = source.position(path, "key");
  const node: unknown = source.document.getIn(path, true);
  const block = isScalar(node) && node.type === Scalar.BLOCK_LITERAL ? node.range : undefined;
  if (!block) return { name, text, start, outward: () => undefined };
  const header = source.position(path, "value");
  return { name, text, start, outward: inBlock(manifestText, header, text) };
}

/** The file in a text that is itself inside another one, with positions in the outermost file. */
export const outermost = (document: SourceDocument, { outward, start, ...file }: SecretFile): SecretFile => ({
  ...file,
  start: document.outward(start) ?? document.start,
  outward(position) {
    const outer = outward(position);
    return outer && document.outward(outer);
  },
});

/** Lines of a literal block follow its "|" in the same order, indented by the same number of columns. */
function inBlock(manifestText: string, header: Position, text: string): (position: Position) => Position {
  const lines = manifestText.split("\n");
  const inner = text.split("\n");
  const first = inner.findIndex(line => line.trim() !== "");
  const margin = (line: string | undefined): number => (line ?? "").search(/\S|$/);
  const indent = first < 0 ? 0 : margin(lines[header.line + first]) - margin(inner[first]);
  // A problem at the end of the inner text may be one line below the last one.
  return ({ line, column }) =>
    header.line + line > lines.length
      ? { line: lines.length, column: 1 }
      : { line: header.line + line, column: column + Math.max(indent, 0) };
}

/**
 * Entries of the Secret at `path` that csimux does not read although they contain a configuration, or are next to one: plain text in
 * `data`, base64 in `stringData`, names that do not end in .yaml or .yml, and other content. No message quotes an entry.
 */
export function* secretEntries(document: SourceDocument, secret: Mapping, path: Path): Iterable<DocumentDiagnostic> {
  const entries = [
    ...Object.entries(mappingAt(secret, "data")).map(([name, value]) => {
      return { name, section: "data", text: decodedText(value), other: "stringData", inOther: value };
    }),
    ...Object.entries(mappingAt(secret, "stringData")).map(([name, value]) => {
      return { name, section: "stringData", text: value, other: "data", inOther: decodedText(value) };
    }),
  ];
  const beside = entries.some(({ text }) => kindIn(text) === "connection");
  for (const entry of entries) {
    const [message, fix] = entryFault(entry, beside) ?? [];
    const at = [...path, entry.section, entry.name];
    if (message !== undefined) yield report(document, readingRules["secret-entry"], at, message, fix, "key");
  }
}

interface SecretEntry {
  readonly name: string;
  readonly section: string;
  /** What csimux reads, and what it would read in the other section. */
  readonly text: unknown;
  readonly other: string;
  readonly inOther: unknown;
}

/** What is wrong with an entry, and what to do. `beside`: another one is a connection file. */
function entryFault(
  { name, text, other, inOther }: SecretEntry,
  beside: boolean,
): readonly [string, string] | undefined {
  const isYaml = isFileName(name);
  if (isConfiguration(kindIn(text))) {
    if (isYaml || !isConnection(text)) return undefined;
    return [`"${name}" is ignored: connection files end in .yaml or .yml`, `rename it to "${nameOf(name)}.yaml"`];
  }
  if (isConfiguration(kindIn(inOther)))
    return [`"${name}" cannot be read: "data" holds base64, and "stringData" plain text`, `move it to "${other}"`];
  if (!beside || !isYaml) return undefined;
  return [`"${name}" is not a configuration`, 'start a connection with "driver: <name>"; otherwise remove the entry'];
}

const decodedText = (value: unknown): string | undefined => (typeof value === "string" ? decoded(value) : undefined);

const isConnection = (text: unknown): boolean =>
  typeof text === "string" &&
  kindIn(text) === "connection" &&
  parseYamlDocuments("", text, fileBudget).some(({ value }) => hasSection(value));

function kindIn(text: unknown): DocumentKind {
  if (typeof text !== "string" || !text.includes(":")) return "other";
  const [source] = parseYamlDocuments("", text, fileBudget);
  return source?.diagnostics.some(each => each.blocks) === false ? kindOf(source.value) : kindOfText(text);
}

import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  parseDocument,
  type SchemaOptions,
  visit,
  type YAMLParseError,
} from "yaml";
import { type Diagnostic, dotted, type Finding, failure, type Path, shownKey, warning } from "./finding.ts";
import { badMerge, emptyAnchor, multipliedAliases, noColon, syntaxErrors, unclosedQuote } from "./yaml-errors.ts";
import { keyText, offsetOf, start } from "./yaml-places.ts";

/** Largest configuration file in bytes; a Kubernetes Secret cannot hold more than 1 MiB altogether. */
export const maxFileBytes = 1 << 20;

/** A place in a text; both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** One YAML document: its plain value, what is wrong with it as YAML, and where everything stands. */
export interface Source {
  readonly file: string;
  /** Null when `findings` holds something that blocks. */
  readonly value: unknown;
  readonly document: Document;
  /** Problems of the YAML itself, already placed. */
  readonly diagnostics: readonly Diagnostic[];
  /** Where the key or the value of `path` stands; of a path that is not there, the nearest thing around it that is. */
  position(path: Path, at: Finding["at"]): Position;
}

/** A finding with its place in the file. */
export function placed(source: Source, finding: Finding): Diagnostic {
  const { severity, rule, path, message, fix, blocks } = finding;
  return {
    file: source.file,
    ...source.position(path, finding.at),
    severity,
    rule,
    path: dotted(rule === "unknown-key" ? path.map(each => (typeof each === "string" ? shownKey(each) : each)) : path),
    message,
    fix,
    blocks,
  };
}

const canonicalInteger = /^(?:0|-?[1-9][0-9]{0,14})$/;
const canonicalFraction = /^-?(?:0|[1-9][0-9]{0,7})\.(?:0|[0-9]{0,6}[1-9])$/;
const retypedTag = /:(?:int|float|bool)$/;

/**
 * Numbers are read as numbers only where writing them gives the same text again: 3260, 0.5. Anything else (0777, 1e3,
 * 0x10, .inf, 20 digits) stays text, so that a password or a mode never changes because it looks like a number.
 * The same holds for booleans: only true and false.
 */
const customTags: SchemaOptions["customTags"] = tags => {
  const kept = tags.filter(tag => typeof tag === "string" || !retypedTag.test(tag.tag));
  const written = { default: true, stringify: ({ value }: { value?: unknown }) => String(value) } as const;
  return [
    ...kept,
    { ...written, tag: "tag:yaml.org,2002:bool", test: /^(?:true|false)$/, resolve: (text: string) => text === "true" },
    { ...written, tag: "tag:yaml.org,2002:int", test: canonicalInteger, resolve: (text: string) => Number(text) },
    { ...written, tag: "tag:yaml.org,2002:float", test: canonicalFraction, resolve: (text: string) => Number(text) },
  ];
};

// Duplicate keys are looked for below: the parser's own check takes quadratic time.
const options = { customTags, merge: true, prettyErrors: false, uniqueKeys: false, logLevel: "error" } as const;

/** Reads one YAML document (or JSON). Never throws. */
export function parseYaml(file: string, text: string): Source {
  if (text.length > maxFileBytes) return unreadable(file, tooLarge(maxFileBytes));
  const lines = new LineCounter();
  const body = withoutMark(text);
  try {
    return source(file, parseDocument(body, { ...options, lineCounter: lines }), lines);
  } catch (error) {
    return unreadable(file, nesting(error));
  }
}

/** Reads a file of several YAML documents, such as a Kubernetes manifest of at most `maxBytes`. Never throws. */
export function parseYamlDocuments(file: string, text: string, maxBytes: number): readonly Source[] {
  if (text.length > maxBytes) return [unreadable(file, tooLarge(maxBytes))];
  const lines = new LineCounter();
  try {
    const documents: readonly Document[] = parseAllDocuments(withoutMark(text), { ...options, lineCounter: lines });
    return documents.map(document => source(file, document, lines));
  } catch (error) {
    return [unreadable(file, nesting(error))];
  }
}

const withoutMark = (text: string): string => (text.startsWith("\uFEFF") ? text.slice(1) : text);

const tooLarge = (bytes: number): Finding =>
  failure(
    "yaml-too-large",
    [],
    `the file is larger than ${bytes >> 10} KiB`,
    "this is no configuration; check the path",
  );

const nesting = (cause: unknown): Finding =>
  cause instanceof RangeError
    ? failure("yaml-syntax", [], "the file is nested too deeply", "check the brackets and the indentation")
    : failure("yaml-syntax", [], "this cannot be read as YAML", "check the quotes and the indentation");

const top: Position = { line: 1, column: 1 };

function unreadable(file: string, finding: Finding): Source {
  const { severity, rule, message, fix, blocks } = finding;
  return {
    file,
    value: null,
    document: parseDocument(""),
    diagnostics: [{ file, ...top, severity, rule, path: "", message, fix, blocks }],
    position: () => top,
  };
}

function source(file: string, document: Document, lines: LineCounter): Source {
  const at = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return line > 0 ? { line, column: Math.max(col, 1) } : top;
  };
  const base = { file, document, position: (path: Path, what: Finding["at"]) => at(offsetOf(document, path, what)) };
  const broken = syntax(file, document, at);
  if (broken.length > 0) return { ...base, value: null, diagnostics: broken };
  const repeated: Finding[] = [];
  findOversights(document.contents, [], repeated);
  const unplaced = { ...base, value: null, diagnostics: [] };
  const diagnostics = [...repeated.map(finding => placed(unplaced, finding)), ...tagWarnings(file, document, at)];
  if (repeated.length > 0) return { ...base, value: null, diagnostics };
  try {
    return { ...base, value: document.toJS({ maxAliasCount: 100 }), diagnostics };
  } catch {
    const { node, words } = badAlias(document);
    const place = at(start(node) ?? 0);
    const [message, fix] = words;
    const bad: Diagnostic = {
      file,
      ...place,
      severity: "error",
      rule: "yaml-alias",
      path: "",
      message,
      fix,
      blocks: true,
    };
    return { ...base, value: null, diagnostics: [...diagnostics, bad] };
  }
}

/** The alias that names nothing, else the first one: the parser refuses aliases that multiply or contain themselves. */
function badAlias(document: Document): { readonly node: Node | undefined; readonly words: readonly [string, string] } {
  let first: Node | undefined;
  let dangling: Node | undefined;
  visit(document, {
    Alias(_key, alias) {
      first ??= alias;
      if (alias.resolve(document) !== undefined) return undefined;
      dangling = alias;
      return visit.BREAK;
    },
  });
  if (dangling) return { node: dangling, words: syntaxErrors.BAD_ALIAS };
  const merge = mergeOfNoMapping(document);
  return merge ? { node: merge, words: badMerge } : { node: first, words: multipliedAliases };
}

/** The value of a "<<" that has no keys to take in; an alias is judged by what it names. */
function mergeOfNoMapping(document: Document): Node | undefined {
  let found: Node | undefined;
  visit(document, {
    Pair(_key, { key, value }) {
      if (!isScalar(key) || key.source !== "<<" || !isNode(value)) return undefined;
      const merged = isAlias(value) ? value.resolve(document) : value;
      if (isMap(merged) || isSeq(merged)) return undefined;
      found = value;
      return visit.BREAK;
    },
  });
  return found;
}

/** The first error of each kind, and of each line: the others are mostly its echo. */
function syntax(file: string, document: Document, at: (offset: number) => Position): readonly Diagnostic[] {
  const byLine = new Map<number, Diagnostic>();
  const codes = new Set<string>();
  for (const error of document.errors) {
    if (codes.has(error.code)) continue;
    const opening = /^Missing closing .quote/.test(error.message) ? openQuote(document, error.pos[0]) : undefined;
    const [message, fix] = opening === undefined ? wordsFor(error) : unclosedQuote;
    const place = at(opening ?? error.pos[0]);
    if (byLine.has(place.line)) continue;
    codes.add(error.code);
    byLine.set(place.line, {
      file,
      ...place,
      severity: "error",
      rule: "yaml-syntax",
      path: "",
      message,
      fix,
      blocks: true,
    });
    if (byLine.size === 5) break;
  }
  return [...byLine.values()];
}

const wordsFor = ({ code, message }: YAMLParseError): readonly [string, string] =>
  message.startsWith("Implicit map keys need") ? noColon : syntaxErrors[code];

/** Where the quoted text begins that was still open at this offset: the parser tells only where it stopped looking. */
function openQuote(document: Document, offset: number): number | undefined {
  let opening: number | undefined;
  visit(document, {
    Scalar(_key, { type, range }) {
      const quoted = type === "QUOTE_DOUBLE" || type === "QUOTE_SINGLE";
      if (quoted && range && range[0] < offset && offset <= range[2]) opening = range[0];
    },
  });
  return opening;
}

const unknownTag = "this tag is unknown and has no effect";

const tagWarnings = (file: string, document: Document, at: (offset: number) => Position): readonly Diagnostic[] =>
  document.warnings.map(({ pos }) => {
    const { severity, rule, message, fix, blocks } = warning("yaml-tag", [], unknownTag, "remove the !tag");
    return { file, ...at(pos[0]), severity, rule, path: "", message, fix, blocks };
  });

/** What the parser allows and nobody means: a key twice in a mapping, an anchor before nothing. */
function findOversights(node: unknown, path: Path, found: Finding[]): void {
  if (isScalar(node) && node.anchor !== undefined && node.value === null && node.source === "")
    found.push(failure("yaml-syntax", path, ...emptyAnchor));
  if (isSeq(node)) for (const [index, item] of node.items.entries()) findOversights(item, [...path, index], found);
  if (!isMap(node)) return;
  const seen = new Set<string>();
  for (const pair of node.items) {
    const key = keyText(pair);
    const here = [...path, key];
    if (seen.has(key) && key !== "<<") {
      const message = `"${key}" stands twice in this mapping`;
      found.push(failure("duplicate-key", here, message, "remove one of the two", "key"));
    }
    seen.add(key);
    findOversights(pair.value, here, found);
  }
}

import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type Node,
  visit,
  type YAMLParseError,
} from "yaml";
import { failure, type Path, type SchemaFinding, warning } from "../schema/finding.ts";
import { knownFaults, syntaxErrors } from "./errors.ts";
import { eachNode } from "./nodes.ts";
import { keyText, type OffsetFinding, start } from "./positions.ts";

const mostSyntaxErrors = 5;

/** The first error of each kind and line, at most five; only one if its cause is known, because the others are consequences. */
export function syntaxFaults(
  document: Document,
  text: string,
  lineOf: (offset: number) => number,
): readonly OffsetFinding[] {
  const byLine = new Map<number, OffsetFinding>();
  const codes = new Set<string>();
  const isDeep = document.errors.some(({ code }) => code === "RESOURCE_EXHAUSTION");
  for (const error of document.errors) {
    const { code, message, pos } = error;
    const cause = isDeep ? undefined : causeOf(document, text, error);
    if (cause) return [{ offset: cause.offset, finding: failure("yaml-syntax", [], ...cause.words) }];
    const [offset] = pos;
    if (codes.has(code) || byLine.has(lineOf(offset)) || byLine.size === mostSyntaxErrors) continue;
    codes.add(code);
    const words = message.startsWith("Implicit map keys need") ? knownFaults.noColon : syntaxErrors[code];
    const rule = code === "RESOURCE_EXHAUSTION" ? "yaml-too-deep" : "yaml-syntax";
    byLine.set(lineOf(offset), { offset, finding: failure(rule, [], ...words) });
  }
  return [...byLine.values()];
}

/** A space that YAML does not accept as one, in the indentation or after a colon. */
const otherSpace = /(?:^[ \t]*|:)[\u00A0\u2000-\u200B\u202F\u205F\u3000\uFEFF]/m;

/** The mistake that caused an error, if known: the parser reports the position where it stopped, often lines later. */
function causeOf(document: Document, text: string, { code, message, pos: [at] }: YAMLParseError) {
  const before = text.slice(0, at).split("\n").slice(-2).join("\n");
  const behind = text.slice(at).split("\n", 2).join("\n");
  const space = otherSpace.exec(before + behind);
  if (space) return { offset: at - before.length + space.index + space[0].length - 1, words: knownFaults.noSpace };
  if (code === "TAB_AS_INDENT") return { offset: text.lastIndexOf("\n", at - 1) + 1, words: syntaxErrors[code] };
  const isQuote = /^Missing closing .quote/.test(message);
  if (!isQuote && !/must (?:be sufficiently indented and )?end with a/.test(message)) return undefined;
  const offset = openAt(document, at, isQuote);
  return offset === undefined
    ? undefined
    : { offset, words: isQuote ? knownFaults.unclosedQuote : knownFaults.unclosedBracket };
}

/** The start of the quoted text, or else of the bracket, that is still open at this offset. */
function openAt(document: Document, offset: number, quote: boolean): number | undefined {
  let opening: number | undefined;
  eachNode(document.contents, node => {
    const { range } = node;
    if (!range || range[0] >= offset) return;
    const { type } = isScalar(node) ? node : {};
    const isQuoted = (type === "QUOTE_DOUBLE" || type === "QUOTE_SINGLE") && offset <= range[2];
    if (quote ? isQuoted : isCollection(node) && node.flow) [opening] = range;
  });
  return opening;
}

/** Tags unknown to the parser. */
export const tagFaults = (document: Document): readonly OffsetFinding[] =>
  document.warnings.map(({ pos }) => ({
    offset: pos[0],
    finding: warning("yaml-tag", [], "this tag is unknown and has no effect", "remove the !tag"),
  }));

/**
 * Why a document has no value: a dangling alias, a merge of something other than a mapping, or multiplying or circular
 * aliases.
 */
export function aliasFault(document: Document): OffsetFinding {
  const { first, dangling } = aliasesOf(document);
  const merge = dangling ? undefined : mergeOfNoMapping(document);
  const words = dangling ? syntaxErrors.BAD_ALIAS : merge ? knownFaults.badMerge : knownFaults.multipliedAliases;
  return { offset: start(dangling ?? merge ?? first) ?? 0, finding: failure("yaml-alias", [], ...words) };
}

function aliasesOf(document: Document): { readonly first: Node | undefined; readonly dangling: Node | undefined } {
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
  return { first, dangling };
}

/** The value of a "<<" that is not a mapping; an alias counts as its target. */
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

/** Mistakes that the parser allows: a key twice in a mapping, an anchor without a value. */
export function oversights(document: Document): readonly SchemaFinding[] {
  const found: SchemaFinding[] = [];
  findOversights(document.contents, [], found);
  return found;
}

function findOversights(node: unknown, path: Path, found: SchemaFinding[]): void {
  if (isScalar(node) && node.anchor !== undefined && node.value === null && node.source === "")
    found.push(failure("yaml-syntax", path, ...knownFaults.emptyAnchor));
  if (isSeq(node)) for (const [index, item] of node.items.entries()) findOversights(item, [...path, index], found);
  if (!isMap(node)) return;
  const seen = new Set<string>();
  for (const pair of node.items) {
    const key = keyText(pair);
    const here = [...path, key];
    if (seen.has(key) && key !== "<<") {
      const message = `"${key}" occurs twice in this mapping`;
      found.push(failure("duplicate-key", here, message, "remove one of them", "key"));
    }
    seen.add(key);
    findOversights(pair.value, here, found);
  }
}

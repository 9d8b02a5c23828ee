import { type Document, isAlias, isMap, isNode, isScalar, isSeq, type Node, visit, type YAMLParseError } from "yaml";
import { failure, type Path, type SchemaFinding, warning } from "../schema/finding.ts";
import { badMerge, emptyAnchor, multipliedAliases, noColon, syntaxErrors, unclosedQuote } from "./errors.ts";
import { eachNode } from "./nodes.ts";
import { keyText, start } from "./positions.ts";

/** A YAML error of a document, and its offset in the text. */
export interface YamlFault {
  readonly offset: number;
  readonly finding: SchemaFinding;
}

const mostSyntaxErrors = 5;

/** The first error of each kind and line, at most five: further ones are usually consequences. */
export function syntaxFaults(document: Document, lineOf: (offset: number) => number): readonly YamlFault[] {
  const byLine = new Map<number, YamlFault>();
  const codes = new Set<string>();
  for (const error of document.errors) {
    if (codes.has(error.code)) continue;
    const opening = /^Missing closing .quote/.test(error.message) ? openQuote(document, error.pos[0]) : undefined;
    const words = opening === undefined ? wordsFor(error) : unclosedQuote;
    const offset = opening ?? error.pos[0];
    if (byLine.has(lineOf(offset))) continue;
    codes.add(error.code);
    byLine.set(lineOf(offset), { offset, finding: failure(ruleOf(error), [], ...words) });
    if (byLine.size === mostSyntaxErrors) break;
  }
  return [...byLine.values()];
}

const ruleOf = ({ code }: YAMLParseError): string => (code === "RESOURCE_EXHAUSTION" ? "yaml-too-deep" : "yaml-syntax");

const wordsFor = ({ code, message }: YAMLParseError): readonly [string, string] =>
  message.startsWith("Implicit map keys need") ? noColon : syntaxErrors[code];

/** The start of the quoted text that was still open at this offset: the parser reports only where it stopped. */
function openQuote(document: Document, offset: number): number | undefined {
  let opening: number | undefined;
  eachNode(document.contents, node => {
    if (!isScalar(node)) return;
    const { type, range } = node;
    const quoted = type === "QUOTE_DOUBLE" || type === "QUOTE_SINGLE";
    if (quoted && range && range[0] < offset && offset <= range[2]) opening = range[0];
  });
  return opening;
}

/** Tags unknown to the parser. */
export const tagFaults = (document: Document): readonly YamlFault[] =>
  document.warnings.map(({ pos }) => ({
    offset: pos[0],
    finding: warning("yaml-tag", [], "this tag is unknown and has no effect", "remove the !tag"),
  }));

/**
 * Why a document has no value: a dangling alias, a merge of something other than a mapping, or multiplying or circular
 * aliases.
 */
export function aliasFault(document: Document): YamlFault {
  const { first, dangling } = aliasesOf(document);
  const merge = dangling ? undefined : mergeOfNoMapping(document);
  const words = dangling ? syntaxErrors.BAD_ALIAS : merge ? badMerge : multipliedAliases;
  return { offset: start(dangling ?? merge ?? first) ?? 0, finding: failure("yaml-alias", [], ...words) };
}

/** The first alias, and the first dangling one. */
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
    found.push(failure("yaml-syntax", path, ...emptyAnchor));
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

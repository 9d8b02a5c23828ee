import { type Document, isAlias, Lexer, type Node } from "yaml";
import { failure, type SchemaFinding } from "../schema/finding.ts";
import { eachNode, mostLevels } from "./nodes.ts";
import { type OffsetFinding, start } from "./positions.ts";

/** Limits of a text before it is parsed; both apply to the whole file. */
export interface Budget {
  /** In UTF-16 units, which for a file of ASCII are bytes. */
  readonly bytes: number;
  /** The number of tokens: keys, values, signs, comments, spaces and line breaks. */
  readonly parts: number;
}

/**
 * For one configuration file: read by the daemon that serves every storage system, so it must take milliseconds or be
 * refused. A Kubernetes Secret holds at most 1 MiB altogether; a connection has a few hundred tokens.
 */
export const fileBudget: Budget = { bytes: 1 << 20, parts: 30_000 };

/** For manifests, such as a whole rendered chart: only commands read them. */
export const manifestBudget: Budget = { bytes: 4 << 20, parts: 1_000_000 };

/** The most aliases in one document. */
const mostAliases = 200;

/** The most characters that aliases may add to a document. */
const longestExpanded = 128 << 10;

const refused = (rule: string, what: string, fix: string): SchemaFinding => failure(rule, [], what, fix);

/** Why this text is refused unparsed, or undefined. The time depends on the allowed length only, not on the content. */
export function textOverBudget(text: string, { bytes, parts }: Budget): SchemaFinding | undefined {
  const noConfiguration = "this is not a configuration file; check the path";
  if (text.length > bytes)
    return refused("yaml-too-large", `the file is larger than ${bytes >> 10} KiB`, noConfiguration);
  // The lexer adds at most one token of its own per character.
  if (text.length * 2 <= parts) return undefined;
  let count = 0;
  for (const _part of new Lexer().lex(text)) {
    if (++count > parts) {
      const message = `the file has more than ${parts} keys, values, signs and line breaks`;
      return refused("yaml-too-large", message, noConfiguration);
    }
  }
  return undefined;
}

/**
 * Checks, before any alias is resolved, whether the value of a document would be far larger than its text, or would contain itself.
 * The size of an alias is that of the text of its target, with the aliases in it expanded.
 */
export function documentOverBudget(document: Document): OffsetFinding | undefined {
  const anchors = new Map<string, Node>();
  const aliases: { readonly offset: number; readonly size: number }[] = [];
  const deep = eachNode(document.contents, node => {
    if (!isAlias(node)) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node);
      return;
    }
    const [from, , to] = anchors.get(node.source)?.range ?? [0, 0, 0];
    const offset = start(node) ?? 0;
    const inside = aliases.length < mostAliases ? aliases.filter(each => each.offset >= from && each.offset < to) : [];
    const size = inside.reduce((sum, each) => sum + each.size, to - from);
    aliases.push({ offset, size: offset < to ? Number.POSITIVE_INFINITY : size });
  });
  if (deep) {
    const what = `lists and mappings are nested more than ${mostLevels} levels deep`;
    return {
      offset: start(deep) ?? 0,
      finding: refused("yaml-too-deep", what, "check the brackets and the indentation"),
    };
  }
  const what =
    aliases.length > mostAliases
      ? `the file has more than ${mostAliases} aliases`
      : aliases.reduce((sum, { size }) => sum + size, 0) > longestExpanded
        ? `aliases and merges ("<<") expand this file by more than ${longestExpanded >> 10} KiB`
        : undefined;
  return what === undefined
    ? undefined
    : { offset: aliases[0]?.offset ?? 0, finding: refused("yaml-alias", what, "write the values out") };
}

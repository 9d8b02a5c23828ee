import { type Document, isAlias, isMap, isScalar, isSeq, Lexer, type Node, type Pair } from "yaml";
import { failure, type SchemaFinding } from "../schema/finding.ts";
import { eachNode, mostLevels } from "./nodes.ts";

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

/** The most aliases in one document. The time to resolve them grows with the square of their number. */
const mostAliases = 200;

/** The most keys, items and values of a document with aliases and merges expanded, repeated work counted each time. */
const mostWork = 60_000;

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
    if (++count > parts)
      return refused(
        "yaml-too-large",
        `the file has more than ${parts} keys, values, signs and line breaks`,
        noConfiguration,
      );
  }
  return undefined;
}

/** What exceeds the budget in a document, and the node at fault. */
export interface Excess {
  readonly node: Node | undefined;
  readonly finding: SchemaFinding;
}

/**
 * Checks whether the value of a document would be far larger than its text: adds up merges and aliases before any of
 * them is resolved, because the parser resolves them again for each use. Takes time proportional to the document's
 * size.
 */
export function documentOverBudget(document: Document): Excess | undefined {
  const anchors = new Map<string, Node>();
  // Each alias and its target, the last anchor of that name before it; undefined if there is none.
  const aliases = new Map<Node, Node | undefined>();
  const deep = eachNode(document.contents, node => {
    if (isAlias(node)) aliases.set(node, anchors.get(node.source));
    else if (node.anchor !== undefined) anchors.set(node.anchor, node);
  });
  if (deep) {
    const what = `lists and mappings are nested more than ${mostLevels} levels deep`;
    return { node: deep, finding: refused("yaml-too-deep", what, "check the brackets and the indentation") };
  }
  const [first] = aliases.keys();
  const excess = (what: string): Excess => ({
    node: first,
    finding: refused("yaml-alias", what, "write the values out"),
  });
  if (aliases.size > mostAliases) return excess(`the file has more than ${mostAliases} aliases`);
  if (aliases.size === 0) return undefined;
  if (new Costs(aliases).of(document.contents).work <= mostWork) return undefined;
  return excess(`aliases and merges ("<<") expand to more than ${mostWork} keys and values`);
}

interface Cost {
  /** Steps to build the value. */
  readonly work: number;
  /** Entries that the value adds to a mapping into which it is merged. */
  readonly entries: number;
}

const free: Cost = { work: 0, entries: 0 };
const endless: Cost = { work: Number.POSITIVE_INFINITY, entries: 0 };

/** Costs of nodes, each computed once. */
class Costs {
  readonly #targets: ReadonlyMap<Node, Node | undefined>;
  readonly #known = new Map<unknown, Cost>();

  constructor(targets: ReadonlyMap<Node, Node | undefined>) {
    this.#targets = targets;
  }

  of(node: unknown): Cost {
    if (isAlias(node)) return this.of(this.#targets.get(node));
    if (isScalar(node)) return { work: 1, entries: 0 };
    if (!isMap(node) && !isSeq(node)) return free;
    const known = this.#known.get(node);
    if (known) return known;
    // A node that contains itself is reached again before its cost is known.
    this.#known.set(node, endless);
    const cost = isMap(node) ? this.#mapping(node.items) : this.#list(node.items);
    this.#known.set(node, cost);
    return cost;
  }

  #list(items: readonly unknown[]): Cost {
    return { work: items.reduce<number>((sum, item) => sum + this.of(item).work, 1), entries: 0 };
  }

  #mapping(pairs: readonly Pair[]): Cost {
    let work = 1;
    let entries = 0;
    for (const { key, value } of pairs) {
      const sources = isMergeKey(key) ? this.#sources(value) : undefined;
      for (const source of sources ?? []) {
        const cost = this.of(source);
        work += cost.work + cost.entries;
        entries += cost.entries;
      }
      if (sources) continue;
      work += 1 + this.of(value).work + (isScalar(key) ? 0 : this.of(key).work);
      entries += 1;
    }
    return { work, entries };
  }

  /** The sources of a "<<": a mapping, or each item of a list. */
  #sources(value: unknown): readonly unknown[] {
    const source = isAlias(value) ? this.#targets.get(value) : value;
    return isSeq(source) ? source.items : [source];
  }
}

const isMergeKey = (key: unknown): boolean => isScalar(key) && (key.source === "<<" || typeof key.value === "symbol");

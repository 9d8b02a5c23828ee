import { type Document, isAlias, isMap, isScalar, isSeq, Lexer, type Node, type Pair } from "yaml";
import { type Finding, failure } from "../schema/finding.ts";
import { eachNode, mostLevels } from "./nodes.ts";

/** What a text may cost before it is read: both limits are of the whole file. */
export interface Budget {
  /** In UTF-16 units, which for a file of ASCII are bytes. */
  readonly bytes: number;
  /** What the lexer cuts the text into: keys, values, signs, comments, spaces and line breaks. */
  readonly parts: number;
}

/**
 * One file of configuration: read by the daemon that serves every storage, so it takes milliseconds or is refused.
 * A Kubernetes Secret cannot hold more than 1 MiB altogether; a connection has a few hundred parts.
 */
export const fileBudget: Budget = { bytes: 1 << 20, parts: 30_000 };

/** Manifests, such as a whole rendered chart: only commands read them. */
export const manifestBudget: Budget = { bytes: 4 << 20, parts: 1_000_000 };

/** Aliases in one document. Finding what each one names takes time with the square of their number. */
const mostAliases = 200;

/** Keys, items and values of a document once aliases and merges are written out, work done twice counted twice. */
const mostWork = 60_000;

const refused = (rule: string, what: string, fix: string): Finding => failure(rule, [], what, fix);

/** Why this text is not even looked at, or undefined. Takes time with the length that is allowed, never with what it means. */
export function textOverBudget(text: string, { bytes, parts }: Budget): Finding | undefined {
  const noConfiguration = "this is no configuration; check the path";
  if (text.length > bytes)
    return refused("yaml-too-large", `the file is larger than ${bytes >> 10} KiB`, noConfiguration);
  // The lexer adds at most one sign of its own to each of the text.
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

/** What is over the budget in a document, and the node that shows it. */
export interface Excess {
  readonly node: Node | undefined;
  readonly finding: Finding;
}

/**
 * Whether the value of a document would cost more than the text weighs: merges and aliases are added up before the first of
 * them is resolved, because the parser does so again for each use. Takes time with the size of the document.
 */
export function documentOverBudget(document: Document): Excess | undefined {
  const anchors = new Map<string, Node>();
  // Each alias and what it names, the last anchor of that name before it; undefined where there is none.
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
  return excess(`aliases and merges ("<<") make more than ${mostWork} keys and values of this file`);
}

interface Cost {
  /** Steps that it takes to make the value. */
  readonly work: number;
  /** Entries that the value hands to a mapping that it is merged into. */
  readonly entries: number;
}

const free: Cost = { work: 0, entries: 0 };
const endless: Cost = { work: Number.POSITIVE_INFINITY, entries: 0 };

/** Costs of nodes, each worked out once. */
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
    // What contains itself is met again before it is known.
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

  /** What a "<<" takes in: a mapping, or each of a list. */
  #sources(value: unknown): readonly unknown[] {
    const source = isAlias(value) ? this.#targets.get(value) : value;
    return isSeq(source) ? source.items : [source];
  }
}

const isMergeKey = (key: unknown): boolean => isScalar(key) && (key.source === "<<" || typeof key.value === "symbol");

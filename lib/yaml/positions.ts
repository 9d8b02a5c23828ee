import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  type YAMLMap,
} from "yaml";
import type { Path, SchemaFinding } from "../schema/finding.ts";

/** A finding at an offset of the text. */
export interface OffsetFinding {
  readonly offset: number;
  readonly finding: SchemaFinding;
}

/** The key of a pair as text. The parser represents a merge key by a symbol. */
export const keyText = (pair: Pair): string => {
  const key: unknown = isScalar(pair.key) ? pair.key.value : pair.key;
  return typeof key === "symbol" ? "<<" : String(key ?? "");
};

/** The start offset of a node. */
export const start = (node: unknown): number | undefined => (isNode(node) && node.range ? node.range[0] : undefined);

/** The offset of the last key or value of `path`, or of the nearest existing node around it. */
export function offsetOf(document: Document, path: Path, what: SchemaFinding["at"]): number {
  let node: unknown = document.contents;
  let offset = start(node) ?? 0;
  for (const [depth, step] of path.entries()) {
    const pair = member(document, node, step);
    if (pair === undefined) return offset;
    const key = isPair(pair) ? start(pair.key) : undefined;
    const value = isPair(pair) ? pair.value : pair;
    const last = depth === path.length - 1;
    const isCollection = isMap(value) || isSeq(value);
    const preferKey = key !== undefined && (what === "key" || !last || isCollection || emptyScalar(value));
    offset = (preferKey ? key : (start(value) ?? key)) ?? offset;
    node = value;
  }
  return offset;
}

/** Whether a value is empty: its position, after the colon, would not help the reader. */
const emptyScalar = (node: unknown): boolean =>
  !isNode(node) || (isScalar(node) && node.range?.[0] === node.range?.[1]);

const indexes = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>();

/** The pairs of a mapping by key, computed once: mappings may be large, and every finding needs its position. */
function pairsOf(map: YAMLMap): ReadonlyMap<string, Pair> {
  const known = indexes.get(map) ?? new Map(map.items.map(pair => [keyText(pair), pair] as const));
  indexes.set(map, known);
  return known;
}

/** The pair or item at `step`, resolving aliases and merged mappings. The last one wins, as in the value. */
function member(document: Document, node: unknown, step: string | number, depth = 0): Pair | Node | undefined {
  const real = isAlias(node) ? node.resolve(document) : node;
  if (isSeq(real)) {
    const item: unknown = real.items[Number(step)];
    return isNode(item) || isPair(item) ? item : undefined;
  }
  if (!isMap(real)) return undefined;
  return pairsOf(real).get(String(step)) ?? merged(document, real, step, depth);
}

const maxMerges = 10;

function merged(document: Document, map: YAMLMap, step: string | number, depth: number): Pair | Node | undefined {
  const merge = pairsOf(map).get("<<");
  if (merge === undefined || depth === maxMerges) return undefined;
  const sources: readonly unknown[] = isSeq(merge.value) ? merge.value.items : [merge.value];
  for (const item of sources) {
    const found = member(document, item, step, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

import { isMap, isNode, isSeq, type Node } from "yaml";

/** The deepest nesting of lists and mappings in a document. */
export const mostLevels = 200;

/**
 * Calls `look` for every node at or below this one in document order; returns the first node that is too deep, below
 * which nothing is visited. The parser's own `visit` keeps the whole path of every node, which takes quadratic time.
 */
export function eachNode(node: unknown, look: (node: Node) => void, level = 0): Node | undefined {
  if (!isNode(node)) return undefined;
  if (level > mostLevels) return node;
  look(node);
  let deep: Node | undefined;
  if (isSeq(node)) for (const item of node.items) deep ??= eachNode(item, look, level + 1);
  if (!isMap(node)) return deep;
  for (const { key, value } of node.items) {
    deep ??= eachNode(key, look, level + 1);
    deep ??= eachNode(value, look, level + 1);
  }
  return deep;
}

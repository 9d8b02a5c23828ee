import type { Path } from "../schema/finding.ts";
import { isMapping } from "../schema/mapping.ts";
import { excerpts } from "./excerpt.ts";
import type { SourceDocument } from "./source-document.ts";

/** The whole text of a document as it may be shown: without secrets and comments; of what is no YAML only the keys. */
export function maskedText(leaf: SourceDocument): string {
  const shown = excerpts(leaf);
  return leaf.text
    .split("\n")
    .map((_, index) => shown({ line: index + 1, column: 1 })?.line ?? "")
    .join("\n")
    .replace(/\n{2,}/g, "\n");
}

/** Shorter words than this stand in every text, whether secret or not. */
const leastLength = 4;

/** The values of a document that must not be shown, for finding them elsewhere: each as a whole and, of a key, line by line. */
export function secretValues(leaf: SourceDocument): readonly string[] {
  const found: string[] = [];
  const walk = (value: unknown, path: Path): void => {
    if (Array.isArray(value)) for (const [index, item] of value.entries()) walk(item, [...path, index]);
    else if (isMapping(value)) for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key]);
    else if ((typeof value === "string" || typeof value === "number") && leaf.isSecret(path)) found.push(String(value));
  };
  walk(leaf.source.value, []);
  const lines = found.flatMap(text => [text.trim(), ...text.split("\n").map(line => line.trim())]);
  return [...new Set(lines)].filter(text => text.length >= leastLength && !/^(?:true|false|null|\d{1,5})$/.test(text));
}

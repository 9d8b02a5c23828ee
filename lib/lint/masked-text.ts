import type { Path } from "../schema/finding.ts";
import { isMapping } from "../schema/mapping.ts";
import type { SourceDocument } from "./document.ts";
import { excerpts } from "./excerpt.ts";

/** The text of a document without secrets and comments; only the keys if it is not valid YAML. */
export function maskedText(document: SourceDocument): string {
  const shown = excerpts(document);
  return document.text
    .split("\n")
    .map((_, index) => shown({ line: index + 1, column: 1 })?.line ?? "")
    .join("\n")
    .replace(/\n{2,}/g, "\n");
}

/** Shorter words occur in every text, secret or not. */
const leastLength = 4;

/** The secret values of a document, to find them in other texts: each as a whole and line by line. */
export function secretValues(document: SourceDocument): readonly string[] {
  const found: string[] = [];
  const walk = (value: unknown, path: Path): void => {
    if (Array.isArray(value)) for (const [index, item] of value.entries()) walk(item, [...path, index]);
    else if (isMapping(value)) for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key]);
    else if ((typeof value === "string" || typeof value === "number") && document.isSecret(path))
      found.push(String(value));
  };
  walk(document.source.value, []);
  const lines = found.flatMap(text => [text.trim(), ...text.split("\n").map(line => line.trim())]);
  return [...new Set(lines)].filter(text => text.length >= leastLength && !/^(?:true|false|null|\d{1,5})$/.test(text));
}

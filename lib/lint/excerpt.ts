import { hasHidden } from "../core/visible.ts";
import type { Position } from "../schema/finding.ts";
import { manifestBudget } from "../yaml/budget.ts";

/** The key of the offending line, without its value, and the column of the caret in it (from 1). */
export interface Excerpt {
  readonly line: string;
  readonly column: number;
}

const maxColumns = 160;

/** Makes excerpts of one text. None has a value, because it may be a secret, also where the file or the key is wrong. */
export function excerpts(text: string): (position: Position) => Excerpt | undefined {
  // A text over the limit is refused at its start, and may have millions of lines.
  const lines = (text.length > manifestBudget.bytes ? text.slice(0, maxColumns) : text)
    .replace(/^\uFEFF/, "")
    .split("\n");
  return ({ line, column }) => {
    const shown = printable(onlyKey(lines[line - 1] ?? ""));
    if (shown === "") return undefined;
    return { line: shown, column: Math.min(Math.max(column, 1), shown.length + 1) };
  };
}

/** Replaces control characters, which must not reach a terminal; a tab becomes an arrow, because it may be the mistake. */
export const printable = (text: string): string =>
  [...text.replaceAll("\t", "→")].map(each => (each < " " || hasHidden(each) ? " " : each)).join("");

const hidden = "***";

/** The indentation and the key of a line, and whether more follows; "" for a comment. */
export function onlyKey(line: string): string {
  const indent = /^[\t ]{0,160}/.exec(line)?.[0] ?? "";
  const rest = line.slice(0, 1000).trim();
  if (rest === "" || rest.startsWith("#")) return "";
  const key = /^(?:-[\t ]+)?["']?[A-Za-z_][\w.-]{0,60}["']?[\t ]*:/.exec(rest)?.[0];
  if (key === undefined) return `${indent}${hidden}`;
  return `${indent}${key}${/^[\t ]*(?:#|$)/.test(rest.slice(key.length)) ? "" : ` ${hidden}`}`;
}

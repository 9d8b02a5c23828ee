import type { Diagnostic } from "../../schema/finding.ts";
import type { LintProblem } from "../lint.ts";

/** Terminal colours (ECMA-48 SGR), or none. */
export interface Paint {
  readonly error: (text: string) => string;
  readonly warning: (text: string) => string;
  readonly strong: (text: string) => string;
  readonly faint: (text: string) => string;
}

const sgr = (code: string) => (text: string) => `\x1b[${code}m${text}\x1b[0m`;
const plain = (text: string): string => text;

/** Colours for a terminal, or text as it is. */
export const paint = (colour: boolean): Paint =>
  colour
    ? { error: sgr("1;31"), warning: sgr("1;33"), strong: sgr("1"), faint: sgr("2") }
    : { error: plain, warning: plain, strong: plain, faint: plain };

/** One problem: everything that is needed to repair it on the first line, then the line with a caret. */
export function problemText(problem: LintProblem, { error, warning, strong, faint }: Paint): string {
  const { file, line, column, severity, rule, path, message, fix, excerpt } = problem;
  const label = severity === "error" ? error("error") : warning("warning");
  const where = path === "" ? "" : `${path}: `;
  const advice = fix === undefined ? "" : `; ${fix}`;
  const first = `${strong(`${file}:${line}:${column}`)}: ${label}: ${where}${strong(message)}${advice} ${faint(`[${rule}]`)}\n`;
  if (!excerpt) return first;
  const margin = faint("    | ");
  const caret = severity === "error" ? error("^") : warning("^");
  return `${first}${margin}${excerpt.line}\n${margin}${" ".repeat(excerpt.column - 1)}${caret}\n`;
}

const plural = (count: number, word: string): string => `${count} ${word}${count === 1 ? "" : "s"}`;

/** The last line. */
export function summary(problems: readonly LintProblem[], files: number): string {
  const errors = problems.filter(({ severity }) => severity === "error").length;
  const found =
    problems.length === 0
      ? "no problems"
      : `${plural(errors, "error")}, ${plural(problems.length - errors, "warning")}`;
  return `${found} in ${plural(files, "file")}\n`;
}

/** `path: what is wrong; what to do`, on one line. */
export const inOneLine = ({ path, message, fix }: Pick<Diagnostic, "path" | "message" | "fix">): string =>
  `${path === "" ? "" : `${path}: `}${message}${fix === undefined ? "" : `; ${fix}`}`;

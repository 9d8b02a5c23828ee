import type { Problem } from "../lint.ts";

/** `{"diagnostics": [...]}`: a stable form. `fix` is null where there is no advice. */
export function json(problems: readonly Problem[]): string {
  const diagnostics = problems.map(({ file, line, column, severity, rule, path, message, fix }) => ({
    file,
    line,
    column,
    severity,
    rule,
    path,
    message,
    fix: fix ?? null,
  }));
  return `${JSON.stringify({ diagnostics }, undefined, 2)}\n`;
}

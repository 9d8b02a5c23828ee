import type { LintProblem } from "../lint.ts";

/** The checked files, and in words what could not be checked. */
interface Extent {
  readonly files: readonly string[];
  readonly unseen: readonly string[];
}

/** `{"diagnostics": [...], "files": [...], "notLookedAt": [...]}`: a stable form. `fix` is null without advice. */
export function json(problems: readonly LintProblem[], { files, unseen }: Extent): string {
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
  return `${JSON.stringify({ diagnostics, files, notLookedAt: unseen }, undefined, 2)}\n`;
}

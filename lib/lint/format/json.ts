import type { LintProblem } from "../lint.ts";

/** The checked files, in words what could not be checked, and the ways of copies between the connections of each deployment. */
interface Extent {
  readonly files: readonly string[];
  readonly unseen: readonly string[];
  readonly copies: readonly object[];
}

/** `{"diagnostics": [...], "files": [...], "notLookedAt": [...], "copies": [...]}`: a stable form. `fix` is null without advice. */
export function json(problems: readonly LintProblem[], { files, unseen, copies }: Extent): string {
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
  return `${JSON.stringify({ diagnostics, files, notLookedAt: unseen, copies }, undefined, 2)}\n`;
}

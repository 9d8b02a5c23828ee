import { modules } from "../../lib/drivers/index.ts";
import { paint, problemText } from "../../lib/lint/format/text.ts";
import type { Input } from "../../lib/lint/input.ts";
import { type LintProblem, lint } from "../../lib/lint/lint.ts";
import type { Example } from "./examples/files.ts";

/** The machine on which the tests check rules: add the files that an online rule reads. */
const machine = { env: (name: string) => (name === "PATH_THAT_IS_SET" ? "x" : undefined), file: () => undefined };

/** Lints files; one called proxy.yaml is the main file. */
export function check(files: Example, checkEnvironment = false): readonly LintProblem[] {
  const inputs = Object.entries(files).map(([file, text]): Input => {
    return { file, text, role: file === "proxy.yaml" ? "main" : "given" };
  });
  return lint(inputs, { modules, resolver: machine, checkEnvironment }).problems;
}

/** What a user sees, without colours. */
export const seen = (problems: readonly LintProblem[]): string =>
  problems.map(problem => problemText(problem, paint(false))).join("");

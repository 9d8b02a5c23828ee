import type { LintProblem } from "../lint.ts";
import type { Rule } from "../rule.ts";
import { inOneLine } from "./text.ts";

/** SARIF 2.1.0 (OASIS), as code scanning services read it. `exitCode` is that of the command. */
export function sarif(
  problems: readonly LintProblem[],
  rules: readonly Rule[],
  version: string,
  exitCode: number,
): string {
  const index = new Map(rules.map(({ id }, position) => [id, position]));
  const driver = {
    name: "csimux",
    version,
    rules: rules.map(({ id, severity, title, why }) => ({
      id,
      shortDescription: { text: title },
      fullDescription: { text: why },
      defaultConfiguration: { level: severity },
    })),
  };
  const results = problems.map(problem => ({
    ruleId: problem.rule,
    ruleIndex: index.get(problem.rule) ?? -1,
    level: problem.severity,
    message: { text: inOneLine(problem) },
    locations: [
      {
        physicalLocation: {
          artifactLocation: { uri: uri(problem.file) },
          region: { startLine: problem.line, startColumn: problem.column },
        },
      },
    ],
  }));
  const log = {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [{ tool: { driver }, invocations: [invocation(exitCode)], columnKind: "utf16CodeUnits", results }],
  };
  return `${JSON.stringify(log, undefined, 2)}\n`;
}

const invocation = (exitCode: number) => ({
  // Section 3.20.14: whether the tool could do its work, not what it found.
  executionSuccessful: exitCode !== 2,
  exitCode,
  exitCodeDescription: ["no problems", "there are problems", "something could not be checked"][exitCode],
});

/** A path as a relative reference; an absolute one as a file URI. */
function uri(file: string): string {
  const encoded = file.split("/").map(encodeURIComponent).join("/");
  return file.startsWith("/") ? `file://${encoded}` : encoded.replace(/^\.\//, "");
}

import type { Problem } from "../lint.ts";
import type { Rule } from "../rules/rule.ts";

/** SARIF 2.1.0 (OASIS), as code scanning services read it. */
export function sarif(problems: readonly Problem[], rules: readonly Rule[], version: string): string {
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
  const results = problems.map(({ file, line, column, severity, rule, path, message, fix }) => ({
    ruleId: rule,
    ruleIndex: index.get(rule) ?? -1,
    level: severity,
    message: { text: `${path === "" ? "" : `${path}: `}${message}${fix === undefined ? "" : `; ${fix}`}` },
    locations: [
      {
        physicalLocation: {
          artifactLocation: { uri: uri(file) },
          region: { startLine: line, startColumn: column },
        },
      },
    ],
  }));
  const log = {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [{ tool: { driver }, columnKind: "utf16CodeUnits", results }],
  };
  return `${JSON.stringify(log, undefined, 2)}\n`;
}

/** A path as a relative reference; an absolute one as a file URI. */
function uri(file: string): string {
  const encoded = file.split("/").map(encodeURIComponent).join("/");
  return file.startsWith("/") ? `file://${encoded}` : encoded.replace(/^\.\//, "");
}

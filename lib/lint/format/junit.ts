import { groupBy } from "../../core/group-by.ts";
import type { LintProblem } from "../lint.ts";
import { inOneLine } from "./text.ts";

/** Text for XML 1.0: characters that it does not allow become a question mark. */
const xml = (text: string): string =>
  [...text]
    .map(each => (/[\t\n\r\x20-\uD7FF\uE000-\uFFFD]/.test(each) || each.length === 2 ? each : "?"))
    .join("")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;")
    .replace(/[\n\r]/g, " ");

/** JUnit's report: one test case for each file, one failure for each error of it; warnings are output of a passed case. */
export function junit(problems: readonly LintProblem[], files: readonly string[]): string {
  const byFile = groupBy(problems, ({ file }) => file);
  const all = [...new Set([...files, ...byFile.keys()])];
  const isError = ({ severity }: LintProblem): boolean => severity === "error";
  const failed = all.filter(file => byFile.get(file)?.some(isError)).length;
  const cases = all.map(file => {
    const problems = byFile.get(file) ?? [];
    const failures = problems.filter(isError).map(failure).join("");
    const content = failures + warnings(problems.filter(each => !isError(each)));
    return `    <testcase classname="csimux.validate" name="${xml(file)}">${content === "" ? "" : `\n${content}    `}</testcase>\n`;
  });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n  <testsuite name="csimux validate" tests="${all.length}" failures="${failed}">\n${cases.join("")}  </testsuite>\n</testsuites>\n`;
}

function warnings(problems: readonly LintProblem[]): string {
  if (problems.length === 0) return "";
  const lines = problems.map(each => xml(`${each.file}:${each.line}:${each.column}: warning: ${inOneLine(each)}`));
  return `      <system-out>${lines.join("\n")}</system-out>\n`;
}

function failure(problem: LintProblem): string {
  const { file, line, column, rule } = problem;
  const message = xml(`error: ${inOneLine(problem)}`);
  return `      <failure type="${xml(rule)}" message="${message}">${xml(`${file}:${line}:${column}`)}</failure>\n`;
}

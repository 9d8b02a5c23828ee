import type { LintProblem } from "../lint.ts";
import { inOneLine } from "./text.ts";

const data = (text: string): string => text.replace(/%/g, "%25").replace(/\r/g, "%0D").replace(/\n/g, "%0A");
const property = (text: string): string => data(text).replace(/:/g, "%3A").replace(/,/g, "%2C");

/** Workflow commands that GitHub shows as annotations of the lines. */
export function github(problems: readonly LintProblem[]): string {
  const lines = problems.map(problem => {
    const { file, line, column, severity, rule } = problem;
    const place = `file=${property(file)},line=${line},col=${column},title=${property(rule)}`;
    return `::${severity} ${place}::${data(inOneLine(problem))}\n`;
  });
  return lines.join("");
}

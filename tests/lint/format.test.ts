import { describe, expect, test } from "bun:test";
import { github } from "../../lib/lint/format/github.ts";
import { json } from "../../lib/lint/format/json.ts";
import { junit } from "../../lib/lint/format/junit.ts";
import { sarif } from "../../lib/lint/format/sarif.ts";
import { paint, problemText, summary } from "../../lib/lint/format/text.ts";
import type { LintProblem } from "../../lib/lint/lint.ts";
import { rules } from "../../lib/lint/rules/index.ts";

const problem: LintProblem = {
  file: "conf/my nas, 1.yaml",
  line: 3,
  column: 5,
  severity: "error",
  rule: "unknown-key",
  path: 'nfs."a b"',
  message: 'unknown key "<a & b>"\n100%',
  fix: 'did you mean "ab"?',
  blocks: false,
  excerpt: { line: '  "a b": 1', column: 3 },
};
const bare: LintProblem = { ...problem, severity: "warning", path: "", fix: undefined, excerpt: undefined };

describe("output", () => {
  test("text has everything on its first line, then shows the position", () => {
    expect(problemText(problem, paint(false)).split("\n")).toEqual([
      'conf/my nas, 1.yaml:3:5: error: nfs."a b": unknown key "<a & b>"',
      '100%; did you mean "ab"? [unknown-key]',
      '    |   "a b": 1',
      "    |   ^",
      "",
    ]);
    expect(problemText(bare, paint(true))).toContain("\x1b[1;33mwarning\x1b[0m");
    expect(summary([problem, bare], 1)).toBe("1 error, 1 warning in 1 file\n");
    expect(summary([], 2)).toBe("no problems in 2 files\n");
  });

  test("JSON has the documented form", () => {
    const { diagnostics } = JSON.parse(json([problem, bare], { files: [], unseen: [], copies: [] }));
    expect(Object.keys(diagnostics[0])).toEqual([
      "file",
      "line",
      "column",
      "severity",
      "rule",
      "path",
      "message",
      "fix",
    ]);
    expect(diagnostics).toMatchObject([
      { line: 3, column: 5, severity: "error", fix: 'did you mean "ab"?' },
      { fix: null },
    ]);
  });

  test("SARIF names its rules and encodes paths", () => {
    const log = JSON.parse(sarif([problem, { ...problem, file: "/a b.yaml" }], rules, "1.0", 1));
    const [run] = log.runs;
    expect(log.version).toBe("2.1.0");
    expect(run.tool.driver.rules[run.results[0].ruleIndex].id).toBe("unknown-key");
    expect(
      run.results.map((each: { locations: { physicalLocation: unknown }[] }) => each.locations[0]?.physicalLocation),
    ).toEqual([
      { artifactLocation: { uri: "conf/my%20nas%2C%201.yaml" }, region: { startLine: 3, startColumn: 5 } },
      { artifactLocation: { uri: "file:///a%20b.yaml" }, region: { startLine: 3, startColumn: 5 } },
    ]);
  });

  test("GitHub's commands are on one line with special characters escaped", () => {
    expect(github([problem])).toBe(
      '::error file=conf/my nas%2C 1.yaml,line=3,col=5,title=unknown-key::nfs."a b": unknown key "<a & b>"%0A100%25; did you mean "ab"?\n',
    );
  });

  test("JUnit's report has warnings as output of a case that passes", () => {
    const text = junit([bare], []);
    expect(text).toContain('failures="0"');
    expect(text).not.toContain("<failure");
    expect(text).toContain("<system-out>conf/my nas, 1.yaml:3:5: warning: unknown key");
  });

  test("JUnit's report has a case for each file and is XML whatever the message holds", () => {
    const text = junit([{ ...problem, message: "<\u0001>&" }], ["conf/my nas, 1.yaml", "clean.yaml"]);
    expect(text).toContain('tests="2" failures="1"');
    expect(text).toContain('<testcase classname="csimux.validate" name="clean.yaml"></testcase>');
    expect(text).toContain("&lt;?&gt;&amp;");
    expect(text).not.toContain("\u0001");
  });
});

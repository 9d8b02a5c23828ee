import { describe, expect, test } from "bun:test";
import { table } from "../../scripts/figures.ts";
import { junitCases, junitTally, tallyLine } from "../../scripts/tally.ts";

const report = (head: string, cases = ""): string => `<?xml version="1.0"?>\n<testsuites ${head}>${cases}</testsuites>`;

describe("the tally", () => {
  test.each([
    ["counts what bun reports", 'tests="4" failures="1" skipped="2"', 1, { passed: 1, failed: 1, skipped: 2 }],
    [
      "counts what ginkgo reports",
      'tests="9" disabled="1" errors="1" failures="2"',
      1,
      { passed: 5, failed: 3, skipped: 1 },
    ],
    [
      "adds a failure when the program failed and reported none",
      'tests="3" failures="0"',
      1,
      { passed: 3, failed: 1, skipped: 0 },
    ],
    ["adds nothing when all is well", 'tests="3" failures="0"', 0, { passed: 3, failed: 0, skipped: 0 }],
  ])("%s", (_, head, code, expected) => {
    expect(junitTally(report(head), code)).toEqual(expected);
  });

  test("takes a missing report for a failure", () => {
    expect(junitTally("", 0)).toEqual({ passed: 0, failed: 1, skipped: 0 });
  });

  test("prints the skipped ones only when there are any", () => {
    expect(tallyLine({ passed: 3, failed: 0, skipped: 0 })).toBe("3 passed, 0 failed");
    expect(tallyLine({ passed: 3, failed: 1, skipped: 2 })).toBe("3 passed, 1 failed, 2 skipped");
  });
});

describe("the reader of JUnit reports", () => {
  test("tells passed, failed and skipped cases apart and decodes their texts", () => {
    const cases = [
      '<testcase name="[It] a &gt; b" status="passed" time="1"></testcase>',
      '<testcase name="self closing"/>',
      '<testcase name="[It] c"><skipped message="skipped - not &quot;supported&quot;"></skipped></testcase>',
      '<testcase name="[It] d"><failure message="boom &#x26; more" type="failed">text</failure></testcase>',
    ];
    expect(junitCases(report('tests="4"', cases.join("\n")))).toEqual([
      { title: "[It] a > b", outcome: "passed", message: "" },
      { title: "self closing", outcome: "passed", message: "" },
      { title: "[It] c", outcome: "skipped", message: 'skipped - not "supported"' },
      { title: "[It] d", outcome: "failed", message: "boom & more" },
    ]);
  });
});

describe("the table of figures", () => {
  test("says whether a target was reached", () => {
    const text = table([
      { what: "small", value: 0.5, unit: "ms", peer: 1, target: 0.6 },
      { what: "large", value: 2, unit: "ms", target: 1 },
    ]);
    expect(text).toContain("0.50 x");
    expect(text).toMatch(/small.*<= 0.60 ms reached/);
    expect(text).toMatch(/large.*<= 1 ms MISSED/);
  });
});

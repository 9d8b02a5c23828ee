/** How many tests of one part passed, failed and were skipped. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** No test at all. */
export const nothing: Tally = { passed: 0, failed: 0, skipped: 0 };

/** The sum of two parts. */
export const plus = (a: Tally, b: Tally): Tally => ({
  passed: a.passed + b.passed,
  failed: a.failed + b.failed,
  skipped: a.skipped + b.skipped,
});

/** The line that machines read: "12 passed, 0 failed", and the skipped ones when there are any. */
export const tallyLine = (tally: Tally): string =>
  `${tally.passed} passed, ${tally.failed} failed${tally.skipped > 0 ? `, ${tally.skipped} skipped` : ""}`;

/**
 * Reads the totals on the outermost element of a JUnit report, as bun and ginkgo write it.
 * A program that ended with an error but reported no failure counts as one failure, and so does a missing report.
 */
export function junitTally(xml: string, exitCode: number): Tally {
  const head = /<testsuites\b[^>]*>/.exec(xml)?.[0];
  if (head === undefined) return { ...nothing, failed: 1 };
  const total = (name: string): number => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(head)?.[1] ?? 0);
  const skipped = total("skipped") + total("disabled");
  const reported = total("failures") + total("errors");
  const passed = total("tests") - reported - skipped;
  return { passed, failed: reported === 0 && exitCode !== 0 ? 1 : reported, skipped };
}

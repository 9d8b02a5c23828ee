/** How many tests of one part passed, failed and were skipped. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** No tests. */
export const nothing: Tally = { passed: 0, failed: 0, skipped: 0 };

/** The sum of two parts. */
export const plus = (a: Tally, b: Tally): Tally => ({
  passed: a.passed + b.passed,
  failed: a.failed + b.failed,
  skipped: a.skipped + b.skipped,
});

/** The line that CI reads: "12 passed, 0 failed", and the number skipped, if any. */
export const tallyLine = (tally: Tally): string =>
  `${tally.passed} passed, ${tally.failed} failed${tally.skipped > 0 ? `, ${tally.skipped} skipped` : ""}`;

/**
 * Reads the totals on the outermost element of a JUnit report, as bun and ginkgo write it.
 * A nonzero exit code without a reported failure counts as one failure, and so does a missing report.
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
/** One test case of a JUnit report. */
export interface JunitCase {
  readonly title: string;
  readonly outcome: "passed" | "failed" | "skipped";
  /** The reason of a skipped or failed case; empty if it passed. */
  readonly message: string;
}

const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

const decode = (text: string): string =>
  text.replace(/&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi, (whole, hex?: string, decimal?: string, name?: string) => {
    if (hex) return String.fromCodePoint(Number.parseInt(hex, 16));
    if (decimal) return String.fromCodePoint(Number(decimal));
    return entities[name ?? ""] ?? whole;
  });

const attribute = (tag: string, name: string): string =>
  decode(new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1] ?? "");

function toCase(tag: string, body: string): JunitCase {
  const title = attribute(tag, "name");
  const bad = /<(failure|error)\b[^>]*>/.exec(body)?.[0];
  if (bad) return { title, outcome: "failed", message: attribute(bad, "message") };
  const skipped = /<skipped\b[^>]*>/.exec(body)?.[0];
  if (skipped) return { title, outcome: "skipped", message: attribute(skipped, "message") };
  return { title, outcome: "passed", message: "" };
}

/** The test cases of a JUnit report by bun or ginkgo, which use a small and regular part of XML. */
export function junitCases(xml: string): readonly JunitCase[] {
  const cases = xml.matchAll(/<testcase\b((?:[^>"]|"[^"]*")*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g);
  return [...cases].map(([, tag = "", body = ""]) => toCase(tag, body));
}

/** The cases of one file in a report by bun. */
export interface JunitSuite {
  /** The path, as bun was given it. */
  readonly file: string;
  readonly seconds: number;
  /** `titles`: those of the groups around the case, outermost first, and its own. */
  readonly cases: readonly { readonly titles: readonly string[]; readonly outcome: JunitCase["outcome"] }[];
}

const element = /<(\/?)(testsuite|testcase|failure|error|skipped)\b((?:[^>"]|"[^"]*")*?)(\/?)>/g;

/** The files of a report by bun, in which a group of cases is an element inside that of its file. */
export function junitSuites(xml: string): readonly JunitSuite[] {
  const files: { file: string; seconds: number; cases: { titles: string[]; outcome: JunitCase["outcome"] }[] }[] = [];
  const around: string[] = [];
  for (const [, closing, kind, tag = "", empty] of xml.matchAll(element)) {
    const name = attribute(tag, "name");
    const cases = files.at(-1)?.cases;
    if (kind === "testcase" && !closing) cases?.push({ titles: [...around.slice(1), name], outcome: "passed" });
    const last = cases?.at(-1);
    if (last && (kind === "failure" || kind === "error") && !closing) last.outcome = "failed";
    if (last && kind === "skipped") last.outcome = "skipped";
    if (kind !== "testsuite") continue;
    if (closing) around.pop();
    else {
      if (around.length === 0) files.push({ file: name, seconds: Number(attribute(tag, "time")), cases: [] });
      if (!empty) around.push(name);
    }
  }
  return files;
}

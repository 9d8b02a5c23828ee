/** One test case of a JUnit report. */
export interface JunitCase {
  readonly title: string;
  readonly outcome: "passed" | "failed" | "skipped";
  /** Why it was skipped or how it failed; empty when it passed. */
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

/** The test cases of a JUnit report as bun and ginkgo write it, which is a small and regular part of XML. */
export function junitCases(xml: string): readonly JunitCase[] {
  const cases = xml.matchAll(/<testcase\b((?:[^>"]|"[^"]*")*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g);
  return [...cases].map(([, tag = "", body = ""]) => toCase(tag, body));
}

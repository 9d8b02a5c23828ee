import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Argv } from "../lib/io/runner.ts";
import { spawned, tool } from "./spawned.ts";
import { junitTally, nothing, type Tally } from "./tally.ts";

/** The command that runs these files, or only the cases whose titles, joined by spaces, match a pattern, and writes a JUnit report. */
export const bunTest = (
  files: readonly string[],
  { report, pattern }: { readonly report: string; readonly pattern?: string },
): Argv => [
  tool("bun"),
  ...["test", "--timeout=60000", "--reporter=junit", `--reporter-outfile=${report}`],
  ...(pattern === undefined ? [] : [`--test-name-pattern=${pattern}`]),
  ...files.map(file => `./${file}`),
];

/** Counts the tests of files as skipped, without running them: no title matches the pattern. */
export async function countSkipped(files: readonly string[]): Promise<Tally> {
  const folder = await mkdtemp(join(tmpdir(), "csimux-report-"));
  try {
    const report = join(folder, "junit.xml");
    const { code } = await spawned(bunTest(files, { report, pattern: "$^" }));
    const { skipped } = junitTally(await readFile(report, "utf8").catch(() => ""), code);
    // A file that does not load without the program counts as one.
    return { ...nothing, skipped: Math.max(skipped, files.length) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawned, tool } from "./spawned.ts";
import { junitTally, nothing, type Tally } from "./tally.ts";

/** Runs `bun test` with these arguments, for at most an hour. `show`: prints its output. */
export async function bunTest(args: readonly string[], show: boolean): Promise<Tally> {
  const folder = await mkdtemp(join(tmpdir(), "csimux-report-"));
  const report = join(folder, "junit.xml");
  try {
    const flags = ["--timeout=60000", "--reporter=junit", `--reporter-outfile=${report}`];
    const { code } = await spawned([tool("bun"), "test", ...flags, ...args], { show, timeoutMs: 3_600_000 });
    return junitTally(await readFile(report, "utf8").catch(() => ""), code);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Counts the tests of files as skipped, without running them: no title matches the pattern. */
export async function countSkipped(files: readonly string[]): Promise<Tally> {
  const { skipped } = await bunTest(["--test-name-pattern=$^", ...files.map(file => `./${file}`)], false);
  // A file that does not load without the program counts as one.
  return { ...nothing, skipped: Math.max(skipped, files.length) };
}

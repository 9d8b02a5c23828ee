import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawned, tool } from "./spawned.ts";
import { junitTally, nothing, type Tally } from "./tally.ts";

/** Runs `bun test` with these arguments; `show`: what it prints is seen. At most an hour. */
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

/** Counts the tests of files, such as tests/io/kube.test.ts, as skipped. No test runs: a pattern that no title can match chooses none. */
export async function countSkipped(files: readonly string[]): Promise<Tally> {
  const { skipped } = await bunTest(["--test-name-pattern=$^", ...files.map(file => `./${file}`)], false);
  // A file that cannot even be read without the program counts as one.
  return { ...nothing, skipped: Math.max(skipped, files.length) };
}

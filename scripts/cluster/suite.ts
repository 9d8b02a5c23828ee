import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { say } from "../say.ts";
import { spawned, tool } from "../spawned.ts";
import { junitTally, nothing, plus, type Tally, tallyLine } from "../tally.ts";
import type { EndOfLogs } from "./logs.ts";

/** Test files that run one after the other against a running machine. */
export interface Suite {
  /** The folder of the files, without a trailing slash. */
  readonly folder: string;
  /** How their names end; the rest is the name of the test. */
  readonly suffix: string;
  /** Where the logs of a failed file are kept, in a folder of its name. */
  readonly failed: string;
  /** Collects logs in a folder while one file runs. */
  keepLogs(to: string): Promise<EndOfLogs>;
}

/** The time limit of one file, so that a hang does not use up the time of the others. */
const fileMs = 3_600_000;

async function testsOf({ folder, suffix }: Suite): Promise<readonly string[]> {
  const names = (await readdir(folder)).filter(name => name.endsWith(suffix));
  return names.map(name => name.slice(0, -suffix.length)).sort();
}

async function runOne(suite: Suite, name: string): Promise<Tally> {
  const work = await mkdtemp(join(tmpdir(), "csimux-suite-"));
  try {
    const report = join(work, "report.xml");
    const flags = ["--timeout=900000", "--reporter=junit", `--reporter-outfile=${report}`];
    const argv = [tool("bun"), "test", `${suite.folder}/${name}${suite.suffix}`, ...flags] as const;
    const kept = join(suite.failed, name);
    const end = await suite.keepLogs(kept);
    const { code } = await spawned(argv, { show: true, timeoutMs: fileMs });
    const tally = junitTally(await readFile(report, "utf8").catch(() => ""), code);
    await end(tally.failed > 0);
    if (tally.failed > 0) say(`the logs of csimux and of everything around it are in ${kept}`);
    return tally;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Runs the test files of the suite, or the named ones, one after the other. Returns whether all passed. */
export async function runSuite(suite: Suite, only: readonly string[]): Promise<boolean> {
  const known = await testsOf(suite);
  const unknown = only.filter(name => !known.includes(name));
  if (unknown.length > 0) throw new Error(`no such tests: ${unknown.join(", ")}; there are ${known.join(", ")}`);
  let total = nothing;
  for (const name of only.length > 0 ? only : known) total = plus(total, await runOne(suite, name));
  console.log(`\n${tallyLine(total)}`);
  return total.failed === 0 && total.passed > 0;
}

import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { say } from "../say.ts";
import { root, spawned, tool } from "../spawned.ts";
import { junitTally, nothing, plus, type Tally, tallyLine } from "../tally.ts";
import { keepLogs } from "./logs.ts";
import { cache, state } from "./place.ts";

const folder = `${root}/tests/cluster`;
const suffix = ".cluster.ts";

/** The time limit of one file, so that a hang does not use up the time of the others. */
const fileMs = 3_600_000;

/** The tests of the cluster, by name. */
async function clusterTests(): Promise<readonly string[]> {
  const names = (await readdir(folder)).filter(name => name.endsWith(suffix));
  return names.map(name => name.slice(0, -suffix.length)).sort();
}

async function runOne(name: string): Promise<Tally> {
  const work = await mkdtemp(join(tmpdir(), "csimux-cluster-test-"));
  try {
    const report = join(work, "report.xml");
    const flags = ["--timeout=900000", "--reporter=junit", `--reporter-outfile=${report}`];
    const argv = [tool("bun"), "test", `${folder}/${name}${suffix}`, ...flags] as const;
    const kept = join(cache, "failed", name);
    const end = await keepLogs(join(state, "log"), kept);
    const { code } = await spawned(argv, { show: true, timeoutMs: fileMs });
    const tally = junitTally(await readFile(report, "utf8").catch(() => ""), code);
    await end(tally.failed > 0);
    if (tally.failed > 0) say(`the logs of csimux, its sidecars and the machine are in ${kept}`);
    return tally;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Runs test files of the running cluster, or the named ones, one after the other. Returns whether all passed. */
export async function runClusterTests(only: readonly string[]): Promise<boolean> {
  const known = await clusterTests();
  const unknown = only.filter(name => !known.includes(name));
  if (unknown.length > 0) throw new Error(`no such tests: ${unknown.join(", ")}; there are ${known.join(", ")}`);
  let total = nothing;
  for (const name of only.length > 0 ? only : known) total = plus(total, await runOne(name));
  console.log(`\n${tallyLine(total)}`);
  return total.failed === 0 && total.passed > 0;
}

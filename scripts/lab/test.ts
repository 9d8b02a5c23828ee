import { existsSync, rmSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf } from "../../lib/core/errors.ts";
import { build } from "../build.ts";
import { installSanity } from "../sanity/program.ts";
import { say } from "../say.ts";
import { root, spawned, tool } from "../spawned.ts";
import { junitTally, nothing, plus, type Tally, tallyLine } from "../tally.ts";
import { type Bench, clearBench, makeBench } from "./bench.ts";
import { buildImage } from "./build.ts";
import { guestHome, type LabTest, labTests, putTest, putTraces } from "./equipment.ts";
import type { Guest } from "./guest.ts";
import { wantedImage } from "./place.ts";
import { installRequirements, whyNotBuild, whyNotRun } from "./requirements.ts";

/** The selection and time limit of lab tests. */
export interface LabTests {
  /** Names of tests, such as nfs; all if empty. */
  readonly only: readonly string[];
  /** A regular expression on the titles of cases; all if absent. */
  readonly cases?: string | undefined;
  /** A running guest to use. If absent, new ones are started and ended. */
  readonly guest?: number | undefined;
  /** The deadline in milliseconds since 1970; tests that have not run by then count as failed. */
  readonly deadline: number;
}

/** The time limit of one file of several, so that a hang does not use up the time of the others. The ZFS drivers need most of it. */
const fileMs = 3_600_000;

/** Variables for tests, such as LAB_SEED, which are passed to the guest. */
const told = (): readonly string[] =>
  Object.entries(process.env).flatMap(([name, value]) => (/^LAB_[A-Z]+$/.test(name) ? [`${name}=${value}`] : []));

const oneFailure: Tally = { ...nothing, failed: 1 };

/** Why this machine cannot run the lab's tests; undefined if it can. */
async function obstacle(): Promise<string | undefined> {
  // The image depends on the version of QEMU.
  await installRequirements(false);
  const built = existsSync((await wantedImage()).finished);
  if (!built) await installRequirements(true);
  return (await whyNotRun()) ?? (built ? undefined : await whyNotBuild());
}

/** A bundled test that runs in a guest. */
interface Bundle {
  readonly name: string;
  /** Its path in the guest. */
  readonly path: string;
  /** The number of the second guest. */
  readonly second: number | undefined;
  /** As LabTests.cases. */
  readonly cases: string | undefined;
}

async function runBundle({ ssh }: Guest, bundle: Bundle, timeoutMs: number): Promise<Tally> {
  const { name, path, second, cases } = bundle;
  const report = `${guestHome}/report-${name}.xml`;
  const script =
    'cd "$1" && rm -f "$3" && CSIMUX="$1/csimux" CSI_SANITY="$1/csi-sanity" SECOND_GUEST="$4" ' +
    'exec ./bun test "$2" --timeout=300000 --reporter=junit --reporter-outfile="$3" --test-name-pattern="$5"';
  const address = second === undefined ? "" : `10.77.0.${second}`;
  const argv = ["env", ...told(), "sh", "-c", script, "test", guestHome, path, report, address, cases ?? "."] as const;
  const { code } = await ssh.run(argv, { show: true, timeoutMs });
  const { stdout } = await ssh.run(["cat", report], { timeoutMs: 30_000 });
  if (stdout === "")
    console.log(`FAILED: ${name} left no report; it ended with code ${code}, with a limit of ${timeoutMs} ms`);
  return junitTally(stdout, code);
}

/** Runs a test on this machine and passes it the guest's number. */
async function runBeside(
  { number }: Guest,
  { name, source }: LabTest,
  { cases = "." }: LabTests,
  work: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Tally> {
  const report = join(work, `report-${name}.xml`);
  const flags = ["--timeout=300000", "--reporter=junit", `--reporter-outfile=${report}`] as const;
  const { code } = await spawned([tool("bun"), "test", source, ...flags, `--test-name-pattern=${cases}`], {
    env: { CSIMUX: join(root, "dist/csimux"), LAB_GUEST: String(number) },
    show: true,
    timeoutMs,
    signal,
  });
  return junitTally(await readFile(report, "utf8").catch(() => ""), code);
}

/** Prints the end of the guest's journal after a failure. */
async function lastWords({ number, ssh }: Guest): Promise<void> {
  const argv = ["journalctl", "--no-pager", "-n", "80", "-o", "short-precise"];
  console.log(`the journal of guest ${number} ends with:\n${(await ssh.run(argv, { timeoutMs: 30_000 })).stdout}`);
}

/** A run of test files, one after the other, in the same guest unless the previous file failed. */
class LabRun {
  /** The result so far. */
  total: Tally = nothing;
  /** Once it is aborted, no further test starts, and the current one ends and does not count. */
  readonly stop = new AbortController();
  private readonly bench: Bench;
  private readonly wish: LabTests;
  private readonly work: string;

  constructor(bench: Bench, wish: LabTests, work: string) {
    this.bench = bench;
    this.wish = wish;
    this.work = work;
  }

  async all(tests: readonly LabTest[]): Promise<void> {
    const boundMs = tests.length > 1 ? fileMs : Number.POSITIVE_INFINITY;
    for (const test of tests) {
      const from = Date.now();
      console.log(`\n--- lab: ${test.name}`);
      const tally = await this.one(test, boundMs).catch((error: unknown) => {
        console.log(`FAILED: ${messageOf(error)}`);
        return oneFailure;
      });
      if (this.stop.signal.aborted) return;
      console.log(`--- lab: ${test.name}: ${tallyLine(tally)} in ${Math.round((Date.now() - from) / 1000)} s`);
      this.total = plus(this.total, tally);
      // Leftovers of a failed test must not make the next one fail.
      if (tally.failed > 0) await clearBench(this.bench);
      else await this.bench.second.clear();
    }
  }

  private async one(test: LabTest, boundMs: number): Promise<Tally> {
    const left = this.wish.deadline - Date.now();
    if (left < 1000) throw new Error("the lab's time limit was reached before this test started");
    const guest = await this.bench.first.guest();
    const second = test.pair ? await this.bench.second.guest() : undefined;
    for (const seen of [second, test.beside ? guest : undefined]) if (seen) await putTraces(seen.ssh, this.work);
    const limitMs = Math.min(boundMs, left);
    const tally = test.beside
      ? await runBeside(guest, test, this.wish, this.work, limitMs, this.stop.signal)
      : await this.inside(guest, test, second?.number, limitMs);
    if (tally.failed > 0) for (const seen of second ? [guest, second] : [guest]) await lastWords(seen);
    return tally;
  }

  private async inside(guest: Guest, test: LabTest, second: number | undefined, limitMs: number): Promise<Tally> {
    const path = await putTest(guest.ssh, test, this.work);
    return runBundle(guest, { name: test.name, path, second, cases: this.wish.cases }, limitMs);
  }
}

/**
 * Ends the guest when a signal ends the process, and prints the result so far with one failure. For signals that cannot be
 * caught, guests are tethered.
 */
function endOnSignal(bench: Bench, run: LabRun, work: string): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.once(signal, () => {
      say(`${signal}: ending the guest`);
      run.stop.abort();
      void clearBench(bench).finally(() => {
        rmSync(work, { recursive: true, force: true });
        console.log(`\n${tallyLine(plus(run.total, oneFailure))}`);
        process.exit(1);
      });
    });
}

async function wantedTests(only: readonly string[]): Promise<readonly LabTest[]> {
  const all = labTests();
  const unknown = only.find(name => !all.some(test => test.name === name));
  if (unknown !== undefined)
    throw new Error(`the lab has no test "${unknown}"; it has ${all.map(({ name }) => name).join(", ")}`);
  return only.length === 0 ? all : all.filter(({ name }) => only.includes(name));
}

/**
 * Runs tests/lab inside a guest, with the executable built from this checkout. A machine that cannot run them prints why,
 * and that counts as one skipped test.
 */
export async function runLabTests(wish: LabTests): Promise<Tally> {
  const { only, guest } = wish;
  const tests = await wantedTests(only);
  const reason = await obstacle();
  if (reason !== undefined) {
    console.log(`\n*** THE LAB'S TESTS DID NOT RUN: ${reason} ***`);
    return { ...nothing, skipped: 1 };
  }
  const sanity = await installSanity();
  if (sanity === undefined) say("no Go (https://go.dev): tests that need csi-sanity are skipped");
  const bench = makeBench({ executable: await build(), sanity }, guest);
  const work = await mkdtemp(join(tmpdir(), "csimux-lab-"));
  const run = new LabRun(bench, wish, work);
  endOnSignal(bench, run, work);
  try {
    await buildImage();
    await run.all(tests);
    return run.total;
  } catch (error) {
    console.log(`FAILED: ${messageOf(error)}`);
    return plus(run.total, oneFailure);
  } finally {
    await clearBench(bench);
    await rm(work, { recursive: true, force: true });
  }
}

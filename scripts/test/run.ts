import { nothing, plus, tallyLine } from "../tally.ts";
import { type Done, type Failure, type Job, type Outcome, runJob } from "./job.ts";

/** How jobs run. */
export interface RunOptions {
  /** The folder of their temporary files. */
  readonly folder: string;
  /** Its like in memory, if there is room. */
  readonly memory?: string | undefined;
  /** How many run at the same time. */
  readonly workers: number;
  readonly signal: AbortSignal;
}

/** The most failed cases that are repeated. */
const maxRepeats = 20;

const line = (job: Job, { tally, failures, processor }: Done, ms: number): string =>
  `${failures.length === 0 ? "ok  " : "FAIL"} ${job.name}: ${tallyLine(tally)} [${(ms / 1_000).toFixed(1)} s, processor ${processor.toFixed(1)} s]`;

/** Runs jobs, the longest first, and prints one line for each, with the whole log of those that fail. */
export async function runJobs(jobs: readonly Job[], { folder, memory, workers, signal }: RunOptions): Promise<Outcome> {
  const waiting = jobs.toSorted((a, b) => b.weight - a.weight);
  let result: Outcome = { tally: nothing, failures: [], seconds: {} };
  let number = 0;
  let processor = 0;
  const work = async (): Promise<void> => {
    for (let job = waiting.shift(); job !== undefined && !signal.aborted; job = waiting.shift()) {
      const started = performance.now();
      const found = await runJob(job, { folder, memory, number: ++number, signal });
      console.log(line(job, found, performance.now() - started));
      processor += found.processor;
      if (found.failures.length > 0) console.log(found.log.trimEnd());
      result = {
        tally: plus(result.tally, found.tally),
        failures: [...result.failures, ...found.failures],
        seconds: { ...result.seconds, ...found.seconds },
      };
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  console.log(`processors were busy with it for ${processor.toFixed(0)} s`);
  return result;
}

/** Repeats what failed, each alone. What passes then has failed nevertheless. Returns a remark for each failure. */
export async function repeat(failures: readonly Failure[], options: RunOptions): Promise<readonly string[]> {
  const remarks: string[] = [];
  for (const [at, { alone }] of failures.entries()) {
    if (alone === undefined || at >= maxRepeats || options.signal.aborted) remarks.push("not repeated");
    else {
      // Numbers below those of the first round, which have no more than this.
      const { tally, failures: again } = await runJob(alone, { ...options, number: 9_000 + at });
      const passes = again.length === 0 && tally.passed > 0;
      remarks.push(passes ? "PASSES ALONE" : "fails alone, too");
    }
  }
  return remarks;
}

/** How to run the same again. */
const command = ({ where, title }: Failure, seed: number): string =>
  where.endsWith(".test.ts") && !where.includes(" ")
    ? `CSIMUX_SEED=${seed} make test ONLY=${where}   # ${title}`
    : `CSIMUX_SEED=${seed} make test   # ${where}`;

/** The last screen: each failure, whether it passes alone, and how to repeat it. */
export const lastScreen = (failures: readonly Failure[], remarks: readonly string[], seed: number): string =>
  failures
    .flatMap((failure, at) => [
      ...failure.log.map(each => `    ${each}`),
      `FAILED ${failure.where}: ${failure.title}`,
      `       ${remarks[at]}; load ${failure.load.toFixed(1)}, seed ${seed}. Again: ${command(failure, seed)}`,
      "",
    ])
    .join("\n");

import type { Argv } from "../../lib/io/runner.ts";
import { nothing, type Tally, tallyLine } from "../tally.ts";
import type { Ended, Job, Outcome } from "./job.ts";

/** The last line of a log that is a tally. */
function tallyOf(log: string): Tally | undefined {
  const [, passed, failed, skipped] =
    [...log.matchAll(/^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/gm)].at(-1) ?? [];
  if (passed === undefined) return undefined;
  return { passed: Number(passed), failed: Number(failed), skipped: Number(skipped ?? 0) };
}

/** A program of its own that ends with a tally: one run of csi-sanity, or the test of other runtimes. */
export function partJob(name: string, weight: number, command: Argv): Job {
  const read = ({ code, cut, log, load, seconds }: Ended): Outcome => {
    const found = tallyOf(log) ?? nothing;
    const ended = code === 0 && tallyOf(log) !== undefined;
    const tally = { ...found, failed: ended ? found.failed : Math.max(found.failed, 1) };
    const title = cut ?? (tallyOf(log) ? tallyLine(tally) : `ended with code ${code}`);
    const lines = log.trimEnd().split("\n").slice(-40);
    const failure = { where: name, title, log: lines, load, alone: partJob(name, weight, command) };
    return { tally, failures: tally.failed === 0 ? [] : [failure], seconds: { [name]: seconds } };
  };
  return { name, weight, argv: () => command, read };
}

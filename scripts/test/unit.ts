import type { Argv } from "../../lib/io/runner.ts";
import { bunTest } from "../bun-test.ts";
import { junitSuites, junitTally, nothing, type Tally } from "../tally.ts";
import type { Ended, Failure, Job, Outcome } from "./job.ts";

/** Files that take longer run in a process of their own; the others share one until it has this many seconds of work, or a third of it all. */
const ownProcess = 2;
const shared = 12;
const parts = 3;

/** Expected seconds of a file that was never run. */
export const unknown = 5;

/** How long files took in an earlier run, in seconds. */
export type Seconds = Readonly<Record<string, number>>;

/**
 * These durations as on an idle machine: together as long as the same files in a record of one. Otherwise a run on a busy machine would
 * give more files a process of their own in the next run.
 */
export function unhurried(seconds: Seconds, idle: Seconds): Seconds {
  const sum = (of: Seconds): number =>
    Object.keys(seconds).reduce((all, file) => all + (file in idle ? (of[file] ?? 0) : 0), 0);
  const scale = Math.min(1, sum(idle) / sum(seconds) || 1);
  return Object.fromEntries(Object.entries(seconds).map(([file, each]) => [file, each * scale]));
}

/** Groups of files for one process each. Files of one folder, which import the same, stay together. */
export function grouped(files: readonly string[], seconds: Seconds): readonly (readonly string[])[] {
  const weight = (file: string): number => seconds[file] ?? unknown;
  const alone = files.filter(file => weight(file) > ownProcess);
  const short = files.filter(each => weight(each) <= ownProcess);
  const most = Math.min(shared, Math.max(ownProcess, short.reduce((sum, file) => sum + weight(file), 0) / parts));
  const groups: string[][] = [];
  let room = 0;
  for (const file of short) {
    if (groups.length === 0 || room < weight(file)) {
      groups.push([]);
      room = most;
    }
    groups.at(-1)?.push(file);
    room -= weight(file);
  }
  return [...alone.map(file => [file]), ...groups];
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

const lastLines = (text: string): readonly string[] =>
  text
    .trimEnd()
    .split("\n")
    .slice(-15)
    .map(line => line.slice(0, 300));

/** What bun printed for one file: from the line with its path to the next file's. */
function logOf(log: string, file: string): string {
  const start = log.indexOf(`\n${file}:\n`);
  if (start < 0) return log;
  const next = log.slice(start + 1).search(/\n\S+\.test\.ts:\n/);
  return next < 0 ? log.slice(start + 1) : log.slice(start + 1, start + 1 + next);
}

/** The part of a file's log that ends with the line of a failed case. */
function logOfCase(log: string, titles: readonly string[]): readonly string[] {
  const lines = log.split("\n");
  const end = lines.findIndex(line => line.startsWith(`(fail) ${titles.join(" > ")}`));
  return lastLines(lines.slice(0, end < 0 ? undefined : end + 1).join("\n"));
}

/** One case of one file, or the whole file if `titles` is empty, alone in a process. */
function alone(file: string, titles: readonly string[]): Job {
  const pattern = titles.length === 0 ? undefined : `^${escaped(titles.join(" "))}$`;
  return unitJob([file], 0, pattern);
}

/** The files of which no report says anything. A test can end its process, even with the code of success, and a file may not load. */
function unreported(files: readonly string[], { code, cut, log, report, load }: Ended): readonly Failure[] {
  if (code === 0 && report !== "") return [];
  const reported = new Set(junitSuites(report).map(({ file }) => file));
  const missing = files.filter(file => !reported.has(file));
  // Without any report, the file that ran last is the one that ended the process.
  const last = missing.filter(file => log.includes(`\n${file}:\n`)).at(-1);
  const guilty = report === "" ? [last ?? files[0] ?? ""] : missing;
  const title = cut ?? (report === "" ? `the process ended with code ${code}` : "the file did not load");
  return guilty.map(where => ({ where, title, log: lastLines(logOf(log, where)), load, alone: alone(where, []) }));
}

/** What is found where bun failed and neither a case nor a file did: an error between two cases. */
const unexplained = (files: readonly string[], pattern: string | undefined, { code, log, load }: Ended): Failure => ({
  where: files.join(" "),
  title: `ended with code ${code}`,
  log: lastLines(log),
  load,
  alone: unitJob(files, 0, pattern),
});

const outcome =
  (files: readonly string[], pattern: string | undefined) =>
  (ended: Ended): Outcome => {
    const suites = junitSuites(ended.report);
    const failed = suites.flatMap(({ file, cases }) =>
      cases
        .filter(each => each.outcome === "failed")
        .map(({ titles }): Failure => {
          // A hook has no name, so its file is repeated.
          const again = titles.at(-1) === "(unnamed)" ? [] : titles;
          const log = logOfCase(logOf(ended.log, file), titles);
          return { where: file, title: titles.join(" > "), log, load: ended.load, alone: alone(file, again) };
        }),
    );
    const failures = [...failed, ...unreported(files, ended)];
    const reported = ended.report === "" ? nothing : junitTally(ended.report, 0);
    if (failures.length === 0 && ended.code !== 0 && !noMatch(pattern, ended))
      failures.push(unexplained(files, pattern, ended));
    const seconds = Object.fromEntries(suites.map(({ file, seconds: each }) => [file, each]));
    return { tally: { ...counted(reported, suites, pattern), failed: failures.length }, failures, seconds };
  };

/** Bun fails if it filters out every case of its files. */
const noMatch = (pattern: string | undefined, { log }: Ended): boolean =>
  pattern !== undefined && /^error: regex .* matched 0 tests/m.test(log);

/** Bun reports cases that the pattern filtered out as skipped. */
function counted(tally: Tally, suites: ReturnType<typeof junitSuites>, pattern: string | undefined): Tally {
  if (pattern === undefined) return tally;
  const wanted = new RegExp(pattern);
  const skipped = suites.flatMap(({ cases }) => cases.filter(each => each.outcome === "skipped"));
  return { ...tally, skipped: skipped.filter(({ titles }) => wanted.test(titles.join(" "))).length };
}

const nameOf = (files: readonly string[]): string =>
  files.length === 1 ? (files[0] ?? "") : `${files[0]} to ${files.at(-1)?.split("/").slice(1).join("/")}`;

/** Tests of files in one process of bun. `pattern`: only the cases whose titles, joined by spaces, match it. */
export function unitJob(files: readonly string[], weight: number, pattern?: string): Job {
  const name = nameOf(files);
  return {
    name,
    weight,
    argv: (report): Argv => bunTest(files, { report, ...(pattern !== undefined && { pattern }) }),
    read: outcome(files, pattern),
  };
}

/** The unit tests as jobs. */
export const unitJobs = (files: readonly string[], seconds: Seconds, pattern?: string): readonly Job[] =>
  grouped(files, seconds).map(group =>
    unitJob(
      group,
      group.reduce((sum, file) => sum + (seconds[file] ?? unknown), 0),
      pattern,
    ),
  );

import { spawn } from "node:child_process";
import { mkdir, open, readdir, readFile, rm } from "node:fs/promises";
import { loadavg } from "node:os";
import type { Argv } from "../../lib/io/runner.ts";
import { unmountBelow } from "../sandbox.ts";
import { root } from "../spawned.ts";
import type { Tally } from "../tally.ts";
import { killMarked, marked, withMark } from "./marked.ts";

/** Something that ran and failed, as the last screen shows it. */
export interface Failure {
  /** A file of tests, or the name of another part. */
  readonly where: string;
  readonly title: string;
  /** The last lines that it printed. */
  readonly log: readonly string[];
  /** The load of the machine when it had ended. */
  readonly load: number;
  /** The same alone; absent if it makes no sense to repeat it. */
  readonly alone?: Job;
}

/** What a job has found. */
export interface Outcome {
  readonly tally: Tally;
  readonly failures: readonly Failure[];
  /** How long its files took, in seconds. */
  readonly seconds: Readonly<Record<string, number>>;
}

/** How the program of a job has ended. */
export interface Ended {
  /** 137 after a signal. */
  readonly code: number;
  /** Why it was ended before its time. */
  readonly cut?: string;
  readonly log: string;
  /** The content of the report that it was asked for; empty if there is none. */
  readonly report: string;
  readonly seconds: number;
  readonly load: number;
}

/** A program that tests something, with its own folder for temporary files. */
export interface Job {
  readonly name: string;
  /** The expected duration in seconds. */
  readonly weight: number;
  argv(report: string): Argv;
  read(ended: Ended): Outcome;
}

/** The limit of one job in milliseconds. On a machine with eight times as many processes as processors, the longest took 14 minutes. */
const limitMs = process.env["CSIMUX_FUZZ"] === "all" ? 14_400_000 : 1_200_000;

function exited(argv: Argv, folder: string, log: number, signal: AbortSignal): Promise<Pick<Ended, "code" | "cut">> {
  const [program, ...args] = argv;
  return new Promise(resolve => {
    const env = { ...process.env, TMPDIR: folder };
    // A file and not a pipe: whatever a test leaves running would keep a pipe open.
    const child = spawn(program, args, { cwd: root, env, stdio: ["ignore", log, log] });
    let cut: string | undefined;
    const end = (why: string) => {
      cut ??= why;
      child.kill("SIGKILL");
    };
    const limit = setTimeout(() => end(`it took more than ${limitMs / 60_000} minutes`), limitMs);
    const interrupted = () => end("interrupted");
    signal.addEventListener("abort", interrupted, { once: true });
    const done = (code: number) => {
      clearTimeout(limit);
      signal.removeEventListener("abort", interrupted);
      resolve({ code, ...(cut !== undefined && { cut }) });
    };
    child.on("error", () => done(127));
    child.on("exit", code => done(code ?? 137));
  });
}

/** Processes that end by themselves within two seconds are not left behind. */
async function processesLeft(mark: number): Promise<readonly string[]> {
  for (const deadline = Date.now() + 2_000; withMark(mark).length > 0 && Date.now() < deadline; ) await Bun.sleep(50);
  const left = withMark(mark).map(({ command }) => `process "${command.slice(0, 120)}"`);
  killMarked(mark);
  return left;
}

/** Removes what a job left behind, and names it. */
async function leftovers(folder: string, mark: number): Promise<readonly string[]> {
  const processes = await processesLeft(mark);
  const mounts = (await unmountBelow(folder)).map(point => `mount ${point}`);
  const files = (await readdir(folder)).map(name => `file ${name}`);
  await rm(folder, { recursive: true, force: true });
  return [...processes, ...mounts, ...files];
}

/** Where and under which number a job runs. */
export interface Place {
  /** The folder of all jobs. */
  readonly folder: string;
  /** A positive number that no other job has. */
  readonly number: number;
  readonly signal: AbortSignal;
}

/** Runs a job to its end. What it leaves behind, processes included, is removed and counts as a failure. Returns its log, too. */
export async function runJob(job: Job, place: Place): Promise<Outcome & { readonly log: string }> {
  const folder = `${place.folder}/${place.number}`;
  const files = { log: `${place.folder}/${place.number}.log`, report: `${place.folder}/${place.number}.xml` };
  // Some tests run as an ordinary user, who must be able to enter but not list it.
  await mkdir(folder, { mode: 0o711 });
  // Unlike a number of jobs, the number of this process differs from that of another run.
  const mark = process.pid * 10_000 + place.number;
  const started = performance.now();
  const handle = await open(files.log, "w");
  const end = await exited(marked(mark, job.argv(files.report)), folder, handle.fd, place.signal).finally(() =>
    handle.close(),
  );
  const seconds = (performance.now() - started) / 1_000;
  const load = loadavg()[0] ?? 0;
  const left = await leftovers(folder, mark);
  const log = await readFile(files.log, "utf8");
  const report = await readFile(files.report, "utf8").catch(() => "");
  await rm(files.log, { force: true });
  await rm(files.report, { force: true });
  const { tally, failures, ...found } = job.read({ ...end, log, report, seconds, load });
  // A program that was ended could not clean up.
  if (left.length === 0 || end.cut !== undefined || end.code === 137) return { tally, failures, ...found, log };
  const failure = { where: job.name, title: "left behind", log: left, load };
  return { ...found, tally: { ...tally, failed: tally.failed + 1 }, failures: [...failures, failure], log };
}

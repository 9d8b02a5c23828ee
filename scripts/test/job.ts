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

/** How a process has ended, and the seconds that it and all children that it waited for have spent on processors. */
type Exit = Pick<Ended, "code" | "cut"> & { readonly processor: number };

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

async function exited(argv: Argv, folder: string, log: number, signal: AbortSignal): Promise<Exit> {
  const env = { ...process.env, TMPDIR: folder };
  // A file and not a pipe: whatever a test leaves running would keep a pipe open.
  const child = Bun.spawn([...argv], { cwd: root, env, stdin: "ignore", stdout: log, stderr: log });
  let cut: string | undefined;
  const end = (why: string) => {
    cut ??= why;
    child.kill("SIGKILL");
  };
  const limit = setTimeout(() => end(`it took more than ${limitMs / 60_000} minutes`), limitMs);
  const interrupted = () => end("interrupted");
  signal.addEventListener("abort", interrupted, { once: true });
  await child.exited;
  clearTimeout(limit);
  signal.removeEventListener("abort", interrupted);
  const processor = Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1_000_000;
  return { code: child.exitCode ?? 137, processor, ...(cut !== undefined && { cut }) };
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
  /** Its like in memory, if there is room. */
  readonly memory?: string | undefined;
  /** A positive number that no other job has. */
  readonly number: number;
  readonly signal: AbortSignal;
}

/** A job that has ended: what it found, what it printed, and what it cost. */
export interface Done extends Outcome {
  readonly log: string;
  /** In seconds, for itself and the children that it waited for. */
  readonly processor: number;
}

/**
 * Files of tests of drivers have their folders in memory: they make and remove so many small files that ext4 costs them a third of their
 * processor time. Others need what a disk has: sandboxes with a /dev/shm of their own, or streams that take a while.
 */
const isOfDriver = ({ name }: Job): boolean => /^tests\/drivers\/\S+$/.test(name);

/** Runs a job to its end. What it leaves behind, processes included, is removed and counts as a failure. */
export async function runJob(job: Job, place: Place): Promise<Done> {
  const folder = `${(isOfDriver(job) ? place.memory : undefined) ?? place.folder}/${place.number}`;
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
  const { tally, failures, ...rest } = job.read({ ...end, log, report, seconds, load });
  const found = { ...rest, log, processor: end.processor };
  // A program that was ended could not clean up.
  if (left.length === 0 || end.cut !== undefined || end.code === 137) return { ...found, tally, failures };
  const failure = { where: job.name, title: "left behind", log: left, load };
  return { ...found, tally: { ...tally, failed: tally.failed + 1 }, failures: [...failures, failure] };
}

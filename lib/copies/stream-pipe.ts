import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { hostPath } from "../core/host-path.ts";
import type { StreamEnd } from "../drivers/copying.ts";
import { localRunner } from "../io/local.ts";
import { type Argv, type Child, type ChildStreams, CommandError, type Output, runToSuccess } from "../io/runner.ts";
import { piped } from "../io/script.ts";

/** How a program of a stream ended: its output and exit code, or the error if it has none. */
type ProgramEnd = Output | CommandError;

/** The result of a stream. */
export interface Transferred {
  /** Both programs ended with exit code 0. */
  readonly isComplete: boolean;
  /** The programs that failed, in the order in which they failed. */
  readonly failures: readonly StreamFailure[];
  /** Both programs were ended because no data moved for `stallMs`. */
  readonly isStalled: boolean;
}

/** A program that failed: what it did, on which host, and how it ended. */
export interface StreamFailure {
  readonly task: "sending" | "receiving" | "sending and receiving";
  readonly where: string;
  readonly end: ProgramEnd;
}

/** The time limits of a stream in milliseconds. */
export interface StreamLimits {
  /** Without data. A storage system may need minutes before the first byte and after the last one. */
  readonly stallMs: number;
  /** For the other program, after one has failed. */
  readonly graceMs: number;
}

const usual: StreamLimits = { stallMs: 30 * 60_000, graceMs: 30_000 };

/** Fewer bytes than this in `stallMs` do not count as data: ssh(1) exchanges messages on an idle connection, too. */
const leastBytes = 64n << 10n;

/** How often the progress is measured, in milliseconds. A measurement takes a millisecond. */
const periodMs = 5_000;

/** Starts a program of a stream. Throws "failed-precondition" for a host that cannot run one. */
async function start({ host }: StreamEnd, argv: Argv, streams: ChildStreams, signal: AbortSignal): Promise<Child> {
  if (!host.child)
    throw new CsiError(
      "failed-precondition",
      `${host.runner.where} cannot run one end of a stream; use another connection`,
    );
  return await host.child(argv, streams, signal);
}

/** How many bytes a process of this machine has read or written, the larger of both (proc(5), /proc/pid/io); 0 if unknown. */
async function moved(pid: number): Promise<bigint> {
  const text = await readFile(`/proc/${pid}/io`, "latin1").catch(() => "");
  const [read = 0n, written = 0n] = ["rchar", "wchar"].map(name =>
    BigInt(new RegExp(`^${name}: (\\d+)`, "m").exec(text)?.[1] ?? 0),
  );
  return larger(read, written);
}

const larger = (one: bigint, other: bigint): bigint => (one > other ? one : other);

const failed = (end: ProgramEnd): boolean => end instanceof CommandError || end.exitCode !== 0;

interface Running {
  readonly child: Child;
  readonly task: StreamFailure["task"];
  readonly where: string;
}

/**
 * Runs the programs at both ends of a stream, joined by a pipe of this machine's kernel, until both have ended. `progress` gets the bytes
 * so far, every few seconds. Rejects with CommandError or CsiError if one could not be started; nothing runs on this machine then.
 */
export async function transfer(
  from: StreamEnd,
  to: StreamEnd,
  progress: (bytes: bigint) => void,
  call: Call,
  limits = usual,
): Promise<Transferred> {
  const pipe = await openPipe(call.signal);
  let said = 0n;
  const stderr = sentBytes(bytes => {
    said = bytes;
  });
  let started: readonly PromiseSettledResult<Child>[];
  try {
    started = await Promise.allSettled([
      start(from, from.argv, { stdout: pipe.writer, stderr }, call.signal),
      start(to, to.argv, { stdin: pipe.reader }, call.signal),
    ]);
  } finally {
    await pipe.close();
  }
  const [sending, receiving] = await allOf(started);
  const running: readonly Running[] = [
    { child: sending, task: "sending", where: from.host.runner.where },
    { child: receiving, task: "receiving", where: to.host.runner.where },
  ];
  const pids = running.map(({ child }) => child.pid);
  // Bytes that were read and written by the start and the login are not part of the stream.
  const before = await Promise.all(pids.map(moved));
  const bytes = async (): Promise<bigint> => {
    const now = await Promise.all(pids.map(moved));
    return now.map((each, at) => each - (before[at] ?? 0n)).reduce(larger, said);
  };
  return await watch(running, bytes, progress, limits);
}

/** Like `transfer`, for ends on one machine: a shell there joins them, so that no data leaves it. The sender reports the bytes. */
export async function transferHere(
  from: StreamEnd,
  to: StreamEnd,
  progress: (bytes: bigint) => void,
  call: Call,
  limits = usual,
): Promise<Transferred> {
  let said = 0n;
  const stderr = sentBytes(bytes => {
    said = bytes;
  });
  const child = await start(to, piped(from.argv, to.argv), { stderr }, call.signal);
  const running = [{ child, task: "sending and receiving", where: to.host.runner.where }] as const;
  return await watch(running, async () => said, progress, limits);
}

/** Returns both children. If only one was started, ends it and throws the error of the other. */
async function allOf(started: readonly PromiseSettledResult<Child>[]): Promise<readonly [Child, Child]> {
  const [first, second] = started;
  if (first?.status === "fulfilled" && second?.status === "fulfilled") return [first.value, second.value];
  for (const each of started) if (each.status === "fulfilled") await each.value.end();
  throw started.find(each => each.status === "rejected")?.reason;
}

/** Waits until all programs have ended. Ends them after `stallMs` without data, and `graceMs` after one has failed. */
async function watch(
  running: readonly Running[],
  bytes: () => Promise<bigint>,
  progress: (bytes: bigint) => void,
  { stallMs, graceMs }: StreamLimits,
): Promise<Transferred> {
  const failures: StreamFailure[] = [];
  const endAll = (): void => void Promise.all(running.map(({ child }) => child.end()));
  let grace: ReturnType<typeof setTimeout> | undefined;
  const all = running.map(async ({ child, task, where }) => {
    const end = await child.ended.catch((error: CommandError) => error);
    if (!failed(end)) return;
    failures.push({ task, where, end });
    grace ??= setTimeout(endAll, graceMs);
  });
  let mark = { bytes: 0n, at: performance.now() };
  let isStalled = false;
  const look = async (): Promise<void> => {
    const now = await bytes();
    if (now > 0n) progress(now);
    if (now >= mark.bytes + leastBytes) mark = { bytes: now, at: performance.now() };
    else if (performance.now() - mark.at > stallMs) {
      isStalled = true;
      endAll();
    }
  };
  const timer = setInterval(() => void look(), Math.min(periodMs, stallMs));
  await Promise.all(all);
  clearInterval(timer);
  clearTimeout(grace);
  return { isComplete: failures.length === 0, failures, isStalled };
}

/** A pipe of the kernel between two programs: its data does not pass through this process. */
export interface Pipe {
  /** The descriptor for the stdin of the one that reads. */
  readonly reader: number;
  /** The descriptor for the stdout of the one that writes. */
  readonly writer: number;
  /** Closes both descriptors of this process. A program sees the end of the pipe only after that; may be repeated. */
  close(): Promise<void>;
}

/** Candidate folders for the name of a pipe, which exists for a moment: in memory rather than on disk, if available. */
const folders = ["/dev/shm", tmpdir()];

const runner = localRunner({ env: { PATH: hostPath } });

/**
 * Makes a pipe. Node has no function for one whose ends can be given to children, so it is a FIFO (fifo(7)) with an unguessable name
 * that only this account may open, and that is removed at once. Throws CsiError.
 */
export async function openPipe(signal: AbortSignal): Promise<Pipe> {
  const name = `csimux-pipe-${randomBytes(16).toString("hex")}`;
  const [first = "", second = ""] = folders.map(folder => join(folder, name));
  try {
    return await pipeAt(first, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return await pipeAt(second, signal);
  }
}

async function pipeAt(path: string, signal: AbortSignal): Promise<Pipe> {
  const opened: FileHandle[] = [];
  const end = async (flags: number): Promise<FileHandle> => {
    const file = await open(path, flags);
    opened.push(file);
    return file;
  };
  const close = async (): Promise<void> => {
    await Promise.all(opened.splice(0).map(file => file.close()));
  };
  try {
    await runToSuccess(runner, { argv: ["mkfifo", "-m", "600", path] }, "making a pipe", signal);
    // With this one, an open of one end does not wait for the other one (fifo(7)). The ends do not share their flags: ssh(1) changes those.
    const both = await end(constants.O_RDWR);
    const [reader, writer] = [await end(constants.O_RDONLY), await end(constants.O_WRONLY)];
    opened.shift();
    await both.close();
    return { reader: reader.fd, writer: writer.fd, close };
  } catch (error) {
    await close();
    throw error;
  } finally {
    await rm(path, { force: true });
  }
}

/** A line of `zfs send -vP` each second: the time, the bytes so far and the snapshot. */
export const progressLine = /^\d\d:\d\d:\d\d\t(\d+)\t/;

/** Finds the bytes so far in the stderr of `zfs send -vP`, which arrives in pieces. */
export function sentBytes(report: (bytes: bigint) => void): (chunk: Uint8Array) => void {
  let rest = "";
  return chunk => {
    const lines = (rest + Buffer.from(chunk).toString("latin1")).split("\n");
    rest = (lines.pop() ?? "").slice(-4096);
    const last = lines.map(line => progressLine.exec(line)?.[1]).findLast(bytes => bytes !== undefined);
    if (last !== undefined) report(BigInt(last));
  };
}

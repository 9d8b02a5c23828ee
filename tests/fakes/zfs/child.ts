import { closeSync, constants, openSync, readSync, writeSync } from "node:fs";
import { errnoOf } from "../../../lib/core/errors.ts";
import { type Argv, type ChildStreams, CommandError, type CommandRunner, type Output } from "../../../lib/io/runner.ts";
import { passing } from "../../waiting.ts";
import { pipeIn } from "./shell.ts";

/** The programs of streams that run on a host of the model, and what tests do to them. */
export interface RunningStreams {
  /** Awaited in the middle of each stream. */
  middle: () => Promise<void>;
  /** What ends the program that receives into a dataset, by the dataset's name. */
  readonly receiving: Map<string, () => void>;
}

const where = "fake";
const maxBytes = 1 << 22;

/** The descriptor of another process's end of a pipe: that of its parent may be closed after this (proc(5), /proc/pid/fd). */
const opened = (fd: ChildStreams["stdout"], flags: number): number | undefined =>
  typeof fd !== "number" ? undefined : openSync(`/proc/self/fd/${fd}`, flags | constants.O_NONBLOCK);

/** The pause before a pipe without reader or data is tried again. */
const tick = (): Promise<void> => passing(1);

/** Waits for a promise, or until the program gets a signal. */
const either = (work: Promise<void>, signal: AbortSignal): Promise<void> =>
  Promise.race([work, new Promise<void>(resolve => signal.addEventListener("abort", () => resolve(), { once: true }))]);

/** Everything that comes out of a pipe, or what has come when the program gets a signal. */
async function readAll(fd: number, signal: AbortSignal): Promise<string> {
  const parts: Buffer[] = [];
  const buffer = Buffer.alloc(64 << 10);
  while (!signal.aborted) {
    try {
      const size = readSync(fd, buffer);
      if (size === 0) break;
      parts.push(Buffer.from(buffer.subarray(0, size)));
    } catch (error) {
      if (errnoOf(error) !== "EAGAIN") throw error;
      await tick();
    }
  }
  return Buffer.concat(parts).toString();
}

/** Throws CommandError if the other end is closed: SIGPIPE ends the program (pipe(7)). */
async function writeAll(fd: number, text: string, signal: AbortSignal): Promise<void> {
  let rest = Buffer.from(text);
  while (rest.length > 0 && !signal.aborted) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      if (errnoOf(error) === "EPIPE") throw new CommandError(where, "zfs", "killed", "ended by SIGPIPE");
      if (errnoOf(error) !== "EAGAIN") throw error;
      await tick();
    }
  }
}

/** The dataset that a program receives into: its last word, or that of the shell which starts it. */
const datasetOf = (argv: Argv): string => (argv.at(-1) ?? "").split(" ").at(-1)?.split("@")[0] ?? "";

/**
 * StorageHost.child for the model in this process: `run` runs the commands, and pipes of the kernel lead from one to the other. A program that
 * receives keeps what it has when a signal ends it (zfs-receive(8), -s).
 */
export function childrenOf(run: CommandRunner["run"], streams: RunningStreams): NonNullable<CommandRunner["child"]> {
  const unstopped = new AbortController().signal;

  async function sent(argv: Argv, to: number, signal: AbortSignal): Promise<Output> {
    const output = await run({ argv, maxBytes }, unstopped);
    const half = output.stdout.length / 2;
    await writeAll(to, output.stdout.slice(0, half), signal);
    if (output.stdout !== "") await either(streams.middle(), signal);
    await writeAll(to, output.stdout.slice(half), signal);
    return { ...output, stdout: "" };
  }

  /** A running receive owns its dataset (OpenZFS 2.2.9, module/zfs/dmu_recv.c, dmu_recv_begin; EBUSY). */
  async function received(argv: Argv, input: () => Promise<string>, end: () => void): Promise<Output> {
    const dataset = datasetOf(argv);
    if (streams.receiving.has(dataset))
      return { stdout: "", stderr: "cannot receive new filesystem stream: dataset is busy\n", exitCode: 1 };
    streams.receiving.set(dataset, end);
    try {
      const stdin = await input();
      return await run({ argv, stdin }, unstopped);
    } finally {
      streams.receiving.delete(dataset);
    }
  }

  /** Both ends in one shell (lib/io/script.ts, piped). */
  async function joined(from: Argv, to: Argv, end: () => void, signal: AbortSignal): Promise<Output> {
    const send = await run({ argv: from, maxBytes }, unstopped);
    const half = send.stdout.length / 2;
    const stream = async () => {
      if (send.stdout !== "") await either(streams.middle(), signal);
      return signal.aborted ? send.stdout.slice(0, half) : send.stdout;
    };
    const receive = await received(to, stream, end);
    const exitCode = send.exitCode === 0 && receive.exitCode === 0 ? 0 : 1;
    return { stdout: "", stderr: send.stderr + receive.stderr, exitCode };
  }

  return async (argv: Argv, { stdin, stdout, stderr }: ChildStreams, signal) => {
    const fail = (reason: string) => new CommandError(where, argv[0], "cancelled", reason);
    if (signal.aborted) throw fail("not started, because the call has ended");
    const [from, to] = [opened(stdin, constants.O_RDONLY), opened(stdout, constants.O_WRONLY)];
    const stop = new AbortController();
    const end = () => stop.abort();
    const pipe = argv[0] === "sh" ? pipeIn(argv[2] ?? "") : undefined;
    const work = async (): Promise<Output> => {
      if (pipe) return joined(pipe.from as Argv, pipe.to as Argv, end, stop.signal);
      if (to !== undefined) return sent(argv, to, stop.signal);
      if (from !== undefined) return received(argv, () => readAll(from, stop.signal), end);
      return run({ argv }, unstopped);
    };
    let isEnded = false;
    const ended = work()
      .then(output => {
        if (isEnded) throw fail("ended");
        stderr?.(Buffer.from(output.stderr));
        return output;
      })
      .finally(() => {
        for (const fd of [from, to]) if (fd !== undefined) closeSync(fd);
      });
    ended.catch(() => {});
    const endNow = async (): Promise<void> => {
      isEnded = true;
      end();
      await ended.catch(() => {});
    };
    signal.addEventListener("abort", () => void endNow(), { once: true });
    return { pid: 0, ended, end: endNow };
  };
}

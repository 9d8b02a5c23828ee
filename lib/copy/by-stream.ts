import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Moment, ReceivedState, StreamSource, StreamStart, StreamTarget } from "../drivers/copying.ts";
import { CommandError, commandFailure } from "../io/runner.ts";
import { type StreamFailure, type Transferred, transfer, transferHere } from "./transfer.ts";
import { faultOf, saysAbsent, wordsOf } from "./zfs-stream.ts";

/** One moment that goes into one landing. */
export interface StreamWork {
  readonly source: StreamSource;
  readonly target: StreamTarget;
  /** The landing. */
  readonly id: string;
  readonly moment: Moment;
  /** The moment that the landing has completely, from an earlier round. */
  readonly earlier: Pick<Moment, "name" | "proof"> | undefined;
  readonly way: "stream-here" | "stream";
  /** Without what older pools may not support; what the first round needed holds for all others. */
  readonly basic: boolean;
  /** Gets the bytes of the running stream so far, every few seconds; begins again at 0 with each stream. */
  progress(bytes: bigint): void;
}

/** How long a program that still receives may take to end, in milliseconds. */
const busyMs = 30_000;

/** How long `stop` may take after the call has ended, in milliseconds. */
const stopMs = 30_000;

/**
 * Sends a moment into a landing as a stream; continues what an earlier stream has left. Resolves when the target says that it holds the
 * moment, with what the stream had to be like. The caller owns the copy: nothing else writes to the landing. Throws CsiError:
 * "unavailable" if another attempt may succeed, with what has arrived kept; "aborted" when the call ends; "not-found" if the source does not
 * see the moment; "failed-precondition" or "invalid-argument" if a person must change something first.
 */
export async function copyByStream(work: StreamWork, call: Call): Promise<{ readonly basic: boolean }> {
  refuseUnfit(work);
  let { basic } = work;
  let isRestarted = false;
  for (;;) {
    const start = await nextStart(work, call);
    if (start === "complete") return { basic };
    const failure = await sendOnce(work, start, basic, call);
    if (failure === undefined) return { basic };
    if (failure.fault === "unsupported" && !basic) basic = true;
    else if (failure.fault === "token" && !isRestarted) isRestarted = true;
    else throw failure.error;
    const state = await idleState(work, call);
    if (state.kind === "partial") await work.target.discard(work.id, call);
  }
}

const taskOf = ({ id, moment }: StreamWork): string => `copying ${JSON.stringify(moment.name)} to volume "${id}"`;

function refuseUnfit(work: StreamWork): void {
  const { source, target, moment, way } = work;
  const refuse = (reason: string) => new CsiError("invalid-argument", `${taskOf(work)}: ${reason}`);
  if (source.format !== target.format) throw refuse(`a stream of ${source.format} cannot become ${target.format}`);
  if (moment.proof === "") throw refuse("the moment has nothing that proves a complete copy");
  if (way === "stream-here" && source.machine !== target.machine) throw refuse("source and target are on two machines");
}

/** Where the next stream starts, or that none is needed. Ends what a dead process left, and discards what cannot be continued. */
async function nextStart(work: StreamWork, call: Call): Promise<StreamStart | "complete"> {
  const { target, id, moment, earlier } = work;
  let state = await idleState(work, call);
  if (state.kind === "partial" && (state.proof !== moment.proof || state.token === "")) {
    await target.discard(id, call);
    state = await idleState(work, call);
  }
  if (state.kind === "nothing") return { kind: "whole" };
  if (state.kind === "partial") return { kind: "token", token: state.token };
  if (state.proof === moment.proof) return "complete";
  if (earlier !== undefined && state.proof === earlier.proof) return { kind: "since", moment: earlier };
  const reason = "the target holds another moment than the ones of this copy; cancel the copy, and let it start again";
  throw new CsiError("failed-precondition", `${taskOf(work)}: ${reason}`);
}

/** What the landing has received, once no program writes to it. */
async function idleState(work: StreamWork, call: Call): Promise<Exclude<ReceivedState, { readonly kind: "busy" }>> {
  const { target, id } = work;
  const until = performance.now() + busyMs;
  let isStopped = false;
  for (;;) {
    const state = await target.state(id, call);
    if (state.kind !== "busy") return state;
    if (call.signal.aborted) throw aborted(work);
    if (performance.now() > until)
      throw new CsiError(
        "unavailable",
        `${taskOf(work)}: an earlier program still receives, and does not end; retrying`,
      );
    if (!isStopped) await target.stop(id, call);
    else await pause(500, call.signal);
    isStopped = true;
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise(resolve => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
  });

/** A stream that failed, and the fault that another kind of stream may not have. */
interface StreamFailed {
  readonly fault: "token" | "unsupported" | undefined;
  readonly error: CsiError;
}

/** One stream; resolves with undefined if the target now holds the moment. */
async function sendOnce(
  work: StreamWork,
  start: StreamStart,
  basic: boolean,
  call: Call,
): Promise<StreamFailed | undefined> {
  const { source, target, id, moment, way } = work;
  const isLater = start.kind === "since" || (start.kind === "token" && work.earlier !== undefined);
  // Within one machine no byte passes this one, which could count it.
  const from = source.open(moment, start, basic, way === "stream-here");
  const to = target.open(id, moment, isLater);
  let result: Transferred;
  try {
    if (way === "stream") await refuseNoise(work, from.host, call);
    const run = way === "stream" ? transfer : transferHere;
    result = await run(from, to, bytes => work.progress(bytes), call);
  } catch (error) {
    throw call.signal.aborted ? aborted(work) : commandFailure(error, taskOf(work));
  }
  if (way === "stream-here" && result.failures.some(({ end }) => end instanceof CommandError))
    await stopLeft(work, call);
  if (call.signal.aborted) throw aborted(work);
  if (result.isComplete) return await prove(work, call);
  return await judge(work, start, result, call);
}

/** A shell that prints before each command spoils a stream: nothing may come before its first byte. */
async function refuseNoise(work: StreamWork, host: StreamEndHost, call: Call): Promise<void> {
  const child = await host.child?.(["true"], {}, call.signal);
  const end = await child?.ended;
  if (end === undefined || (end.stdout === "" && end.exitCode === 0)) return;
  const { where } = host.runner;
  const heard = JSON.stringify(end.stdout.slice(0, 100));
  const why =
    end.exitCode === 0
      ? `the account prints at login (${heard}), which would be part of the stream; let its profile print only in terminals`
      : `the account cannot run commands: "true" ended with exit code ${end.exitCode}`;
  throw new CsiError("failed-precondition", `${taskOf(work)}: ${where}: ${why}`);
}

type StreamEndHost = ReturnType<StreamSource["open"]>["host"];

/** Programs on another machine do not end with the connection to it: only the target can end them. */
async function stopLeft({ target, id }: StreamWork, call: Call): Promise<void> {
  const signal = AbortSignal.timeout(stopMs);
  await target.stop(id, { ...call, signal }).catch((error: unknown) => {
    call.log.warn(`volume "${id}": what receives it may still run: ${String(error)}`);
  });
}

/** Both programs have succeeded; only the target knows whether it holds the moment. */
async function prove(work: StreamWork, call: Call): Promise<undefined> {
  const state = await work.target.state(work.id, call);
  if (state.kind === "whole" && state.proof === work.moment.proof) return;
  const held = state.kind === "whole" ? "another moment" : "not the whole moment";
  throw new CsiError("unavailable", `${taskOf(work)}: the stream has ended, but the target holds ${held}; retrying`);
}

async function judge(
  work: StreamWork,
  start: StreamStart,
  { failures, isStalled }: Transferred,
  call: Call,
): Promise<StreamFailed> {
  const words = failures.map(wordsFrom).join("\n");
  const found = faultOf(words);
  const left = found && (await idleState(work, call).catch(() => undefined))?.kind;
  // What has arrived is worth more than a final answer.
  const isFinal = found !== undefined && found.fault !== "full" && left === "nothing";
  const advice = found?.advice ?? (isStalled ? "no byte has moved for too long; retrying" : "retrying");
  const text = `${taskOf(work)}: ${failures.map(textOf).join("; ")}; ${advice}`;
  if (saysAbsent(words, work.moment.name)) return { fault: undefined, error: new CsiError("not-found", text) };
  const error = new CsiError(isFinal ? "failed-precondition" : "unavailable", text);
  if (found?.fault === "token" && start.kind === "token") return { fault: "token", error };
  // Later rounds must be like the first one: a stream with other block sizes would leave files with zeros.
  const isFirst = start.kind === "whole" && work.earlier === undefined && left === "nothing";
  return { fault: found?.fault === "unsupported" && isFirst ? "unsupported" : undefined, error };
}

const wordsFrom = ({ end }: StreamFailure): string => (end instanceof CommandError ? end.message : end.stderr);

const textOf = ({ task, where, end }: StreamFailure): string => {
  if (end instanceof CommandError) return `${task} failed: ${end.message}`;
  const words = wordsOf(end.stderr);
  return `${task} failed on ${where} with exit code ${end.exitCode}: ${words || "no reason given"}`;
};

const aborted = (work: StreamWork): CsiError =>
  new CsiError("aborted", `${taskOf(work)}: stopped; what has arrived is kept, and the next attempt continues`);

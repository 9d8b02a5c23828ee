import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { pause } from "../core/time.ts";
import type { ReceivedState, SourceSnapshot, StreamSource, StreamStart, StreamTarget } from "../drivers/copying.ts";
import { CommandError, commandFailure } from "../io/runner.ts";
import { progressLine, type StreamFailure, type Transferred, transfer, transferHere } from "./stream-pipe.ts";

/** The parameters of `copyByStream`: a snapshot, and the target that receives it. */
export interface StreamWork {
  readonly source: StreamSource;
  readonly target: StreamTarget;
  /** The target. */
  readonly id: string;
  readonly snapshot: SourceSnapshot;
  /** The snapshot that the target has completely, from an earlier pass. */
  readonly earlier: Pick<SourceSnapshot, "name" | "proof"> | undefined;
  readonly method: "zfs-send-local" | "zfs-send";
  /** Omits the stream features that older pools may lack. All passes of a copy use the value of the first one. */
  readonly basic: boolean;
  /** Called before the first stream without those features; what it notes outlives an interruption of that stream. */
  simplified(): Promise<void>;
  /** Gets the bytes of the running stream every few seconds; each stream starts at 0. */
  progress(bytes: bigint): void;
}

/** How long a receiving program may take to end, in milliseconds. */
const busyMs = 30_000;

/** How long `stop` may take after the call has ended, in milliseconds. */
const stopMs = 30_000;

/**
 * Sends a snapshot into a target as a stream, or continues an earlier stream. Resolves when the target confirms that it holds the snapshot,
 * with the value of `basic` for later passes. The caller must hold the lease of the copy, so that nothing else writes to the target. Throws CsiError:
 * "unavailable" if another attempt may succeed, for which the received data is kept; "aborted" when the call ends; "not-found" if the
 * snapshot does not exist on the source; "failed-precondition" or "invalid-argument" if a person must change something first.
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
    if (failure.kind === "unsupported" && !basic) {
      // An attempt that continues it by a token does not learn the form that it has.
      await work.simplified();
      basic = true;
    } else if (failure.kind === "token" && !isRestarted) isRestarted = true;
    else throw failure.error;
    const state = await idleState(work, call);
    if (state.kind === "partial") await work.target.discard(work.id, call);
  }
}

const taskOf = ({ id, snapshot }: StreamWork): string => `copying ${JSON.stringify(snapshot.name)} to volume "${id}"`;

function refuseUnfit(work: StreamWork): void {
  const { source, target, snapshot, method } = work;
  const refuse = (reason: string) => new CsiError("invalid-argument", `${taskOf(work)}: ${reason}`);
  if (source.format !== target.format) throw refuse(`a stream of ${source.format} cannot become ${target.format}`);
  if (snapshot.proof === "") throw refuse("the snapshot has no guid, which is needed to prove that a copy is complete");
  if (method === "zfs-send-local" && source.machine !== target.machine)
    throw refuse("source and target are on different machines, so no stream can stay within one");
}

/** Where the next stream starts, or that none is needed. Ends programs of a dead process, and discards a part that cannot be continued. */
async function nextStart(work: StreamWork, call: Call): Promise<StreamStart | "complete"> {
  const { source, target, id, snapshot, earlier } = work;
  let state = await idleState(work, call);
  const isOwn = async ({ token, proof }: { readonly token: string; readonly proof: string }) =>
    token !== "" && proof === snapshot.proof && (await source.isTokenOf(token, snapshot, call));
  if (state.kind === "partial" && !(await isOwn(state))) {
    await target.discard(id, call);
    state = await idleState(work, call);
  }
  if (state.kind === "nothing") return { kind: "whole" };
  if (state.kind === "partial") return { kind: "token", token: state.token };
  if (state.proof === snapshot.proof) return "complete";
  if (earlier !== undefined && state.proof === earlier.proof) return { kind: "since", snapshot: earlier };
  const reason = "the target holds a snapshot that is not of this copy; cancel the copy and let it start again";
  throw new CsiError("failed-precondition", `${taskOf(work)}: ${reason}`);
}

/** What the target has received, once no program writes to it. */
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
        `${taskOf(work)}: a program of an earlier attempt still receives and does not end; retrying`,
      );
    if (!isStopped) await target.stop(id, call);
    else await pause(500, call.signal).catch(() => {});
    isStopped = true;
  }
}

/** Why a stream failed; `kind` is set if a stream with another start or other features may succeed. */
interface StreamFailed {
  readonly kind: "token" | "unsupported" | undefined;
  readonly error: CsiError;
}

/** One stream; resolves with undefined if the target now holds the snapshot. */
async function sendOnce(
  work: StreamWork,
  start: StreamStart,
  basic: boolean,
  call: Call,
): Promise<StreamFailed | undefined> {
  const { source, target, id, snapshot, method } = work;
  const isLater = start.kind === "since" || (start.kind === "token" && work.earlier !== undefined);
  // Data that stays on one machine does not pass csimux, which therefore cannot count it.
  const from = source.open(snapshot, start, basic, method === "zfs-send-local");
  const to = target.open(id, snapshot, isLater);
  let result: Transferred;
  try {
    if (method === "zfs-send") await refuseNoise(work, from.host, call);
    const run = method === "zfs-send" ? transfer : transferHere;
    result = await run(from, to, bytes => work.progress(bytes), call);
  } catch (error) {
    throw call.signal.aborted ? aborted(work) : commandFailure(error, taskOf(work));
  }
  if (method === "zfs-send-local" && result.failures.some(({ end }) => end instanceof CommandError))
    await stopLeft(work, call);
  if (call.signal.aborted) throw aborted(work);
  if (result.isComplete) return await prove(work, call);
  return await judge(work, start, result, call);
}

/** Refuses an account whose shell prints before each command: the text would become the beginning of the stream. */
async function refuseNoise(work: StreamWork, host: StreamEndHost, call: Call): Promise<void> {
  const child = await host.child?.(["true"], {}, call.signal);
  const end = await child?.ended;
  if (end === undefined || (end.stdout === "" && end.exitCode === 0)) return;
  const { where } = host.runner;
  const heard = JSON.stringify(end.stdout.slice(0, 100));
  const why =
    end.exitCode === 0
      ? `the account prints at login (${heard}), which would corrupt the stream; make its profile print only in terminals`
      : `the account cannot run commands: "true" ended with exit code ${end.exitCode}; give it a shell that runs them`;
  throw new CsiError("failed-precondition", `${taskOf(work)}: ${where}: ${why}`);
}

type StreamEndHost = ReturnType<StreamSource["open"]>["host"];

/** Ends the receiving program through the target: programs on another machine continue when the ssh connection breaks. */
async function stopLeft({ target, id }: StreamWork, call: Call): Promise<void> {
  const signal = AbortSignal.timeout(stopMs);
  await target.stop(id, { ...call, signal }).catch((error: unknown) => {
    call.log.warn(`volume "${id}": its receiving program may still run: ${String(error)}`);
  });
}

/** Both programs have succeeded; only the target knows whether it holds the snapshot. */
async function prove(work: StreamWork, call: Call): Promise<undefined> {
  const state = await work.target.state(work.id, call);
  if (state.kind === "whole" && state.proof === work.snapshot.proof) return;
  const held = state.kind === "whole" ? "another snapshot" : "not the whole snapshot";
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
  // A final error would lose the received data.
  const isFinal = found !== undefined && found.kind !== "full" && left === "nothing";
  const advice = found?.advice ?? (isStalled ? "no byte has moved for too long; retrying" : "retrying");
  const text = `${taskOf(work)}: ${failures.map(textOf).join("; ")}; ${advice}`;
  if (saysAbsent(words, work.snapshot.name)) return { kind: undefined, error: new CsiError("not-found", text) };
  const error = new CsiError(isFinal ? "failed-precondition" : "unavailable", text);
  if (found?.kind === "token" && start.kind === "token") return { kind: "token", error };
  // Later passes need the features of the first one: a stream with other block sizes would fill parts of files with zeros.
  const isFirst = start.kind === "whole" && work.earlier === undefined && left === "nothing";
  return { kind: found?.kind === "unsupported" && isFirst ? "unsupported" : undefined, error };
}

const wordsFrom = ({ end }: StreamFailure): string => (end instanceof CommandError ? end.message : end.stderr);

const textOf = ({ task, where, end }: StreamFailure): string => {
  if (end instanceof CommandError) return `${task} failed: ${end.message}`;
  const words = wordsOf(end.stderr);
  return `${task} failed on ${where} with exit code ${end.exitCode}: ${words || "no reason given"}`;
};

const aborted = (work: StreamWork): CsiError =>
  new CsiError("aborted", `${taskOf(work)}: stopped; the next attempt continues with the data that has arrived`);

/**
 * What `zfs send` and `zfs receive` print, in the C locale (OpenZFS 2.4.99, lib/libzfs/libzfs_sendrecv.c and libzfs_util.c; the messages
 * have been the same since 0.8). Both exit with 1 for every failure, so only the messages distinguish them.
 */

/**
 * Why a stream failed: the receiver's pool or programs do not support one of its features ("unsupported"); its resume token is no longer
 * valid ("token"); the target is full ("full"); a person must change something first ("refused").
 */
export type FaultKind = "unsupported" | "token" | "full" | "refused";

/** Each fault with its messages, and what to do. */
const faults: readonly (readonly [FaultKind, RegExp, string])[] = [
  [
    "unsupported",
    /pool must be upgraded to receive|unsupported version or feature|stream has unsupported feature|kernel modules must be upgraded/,
    "upgrade the pool or ZFS of the target",
  ],
  [
    "token",
    /used in the initial send|incremental source 0x\w+ no longer exists|resume token is corrupt/,
    "retrying from the beginning",
  ],
  [
    "full",
    /out of space|space quota exceeded|No space left on device|[Qq]uota exceeded/,
    "free space on the target, or raise its quota; then the copy continues where it stopped",
  ],
  ["refused", /key must be loaded/, "load the key of the dataset (zfs load-key)"],
  [
    "refused",
    /password is required|not allowed to execute|not in the sudoers/,
    "allow the account to run zfs by sudo without a password",
  ],
  ["refused", /permission denied/i, "give the account the permissions (zfs allow, or sudo)"],
  ["refused", /command not found|: not found$|failed to execute/m, "install ZFS, or correct the path of zfs"],
  [
    "refused",
    /has been modified|does not\s+match incremental source|destination already exists|requires -L|need -L|crypto parameters/,
    "cancel the copy, and let it start again",
  ],
];

/** The fault in a program's messages, and what to do about it; undefined for all others, which the next attempt may not meet. */
export function faultOf(words: string): { readonly kind: FaultKind; readonly advice: string } | undefined {
  const found = faults.find(([, pattern]) => pattern.test(words));
  return found && { kind: found[0], advice: found[2] };
}

/** Whether `zfs send` reports that a snapshot does not exist (libzfs_dataset.c, zfs_open): it was destroyed, or its pool is not imported. */
export const saysAbsent = (words: string, snapshot: string): boolean =>
  words.includes(`cannot open '${snapshot}': dataset does not exist`);

/** Other lines of `zfs send -vP`: the estimate, and the content of a token. */
const otherLine = /^(full|incremental|size)\t|^resume token contents|^nvlist version|^\t/;

/** Before the token, which `zfs receive -s` prints when a stream ends early. */
const tokenAdvice = "A resuming stream can be generated";

/** What a program reports, without the lines of `zfs send -vP` and without a token: in one line, cut to 300 characters. */
export const wordsOf = (stderr: string): string =>
  (stderr.split(tokenAdvice)[0] ?? "")
    .split("\n")
    .filter(line => line.trim() !== "" && !progressLine.test(line) && !otherLine.test(line))
    .map(line => line.trim())
    .join(" ")
    .slice(0, 300);

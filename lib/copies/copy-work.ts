import type { Call, Log } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import type { CopyMethod, CopySource, CopySpec, CopyTarget, ReadableTree, SourceSnapshot } from "../drivers/copying.ts";
import type { Driver } from "../drivers/driver.ts";
import type { CopyLease, CopyTimes } from "./lease.ts";
import type { CopiedBytes } from "./progress.ts";
import type { CopyQueue } from "./queue.ts";
import { ChangedRecordError, type CopyRecord, type RecordPlace } from "./record.ts";
import { refuseAcls } from "./rsync/nfs4-acl.ts";
import { copyFiles } from "./rsync/rsync.ts";
import type { FileListings, PassFiles } from "./rsync/unchanged-files.ts";
import type { StreamWork } from "./zfs-send.ts";

/** Runs `work` with the driver of a connection, which stays open until `work` settles. */
export type UseDriver = <T>(connection: string, work: (driver: Driver) => Promise<T>) => Promise<T>;

/** Copies by a stream between programs of both ends (`copyByStream`). */
export type CopyByStream = (work: StreamWork, call: Call) => Promise<{ readonly basic: boolean }>;

/** The parts that all copies of a process share. */
export interface CopyParts {
  readonly use: UseDriver;
  readonly stream: CopyByStream;
  readonly turns: CopyQueue;
  readonly listings: FileListings;
  readonly times: CopyTimes;
  readonly copied: CopiedBytes;
  readonly idleMs: () => number;
  /** The id of this process in records: random, new with each start. */
  readonly self: string;
  readonly log: Log;
}

/** A copy to run. */
export interface CopyWork {
  readonly target: Handle;
  readonly source: Handle;
  readonly record: CopyRecord;
  readonly spec: CopySpec;
  /** Whether its target was just created. Otherwise it may be missing: the process that wrote the record may have ended before that. */
  readonly isNew: boolean;
  /** What the file of the source's connection allows. */
  readonly dropAcls: boolean;
  readonly allowPlain: boolean;
}

/**
 * How a copy ended: all data has arrived; it paused, and the next request continues it; another process cancelled it, and its target is
 * removed; or it cannot continue.
 */
export type CopyOutcome =
  | { readonly kind: "ready"; readonly record: CopyRecord }
  | { readonly kind: "paused"; readonly why: CsiError }
  | { readonly kind: "cancelled"; readonly why: CsiError }
  | { readonly kind: "failed"; readonly error: CsiError };

/** The driver of a connection as the target of copies. Throws "unavailable" if it lacks it, because the connection's file was changed during the copy. */
const copyTargetOf = ({ copyTarget }: Driver, connection: string): CopyTarget => {
  if (copyTarget) return copyTarget;
  throw unable(connection, "take content of other connections any more");
};

/** The driver of a connection as the source of copies. Throws like `copyTargetOf`. */
export const copySourceOf = ({ copySource }: Driver, connection: string): CopySource => {
  if (copySource) return copySource;
  throw unable(connection, "give its content to other connections any more");
};

/** Where the record of the copy to a volume is, for work that no request waits for. */
export const placeOf = (use: UseDriver, target: Handle): RecordPlace => ({
  ...{ target: encodeHandle(target), id: target.id },
  use: work => use(target.connection, driver => work(copyTargetOf(driver, target.connection))),
});

/** Runs `work` with both ends of a copy, which stay open until it settles. */
export function withBoth<T>(
  use: UseDriver,
  { source, target }: CopyWork,
  work: (copySource: CopySource, copyTarget: CopyTarget) => Promise<T>,
): Promise<T> {
  return use(target.connection, to =>
    use(source.connection, from => work(copySourceOf(from, source.connection), copyTargetOf(to, target.connection))),
  );
}

/** Whether a method sends a stream. */
export const isStream = (method: CopyMethod): method is "zfs-send" | "zfs-send-local" =>
  method === "zfs-send" || method === "zfs-send-local";

/** The machines that a copy keeps busy, for its turn. */
export function machinesOf(
  { record, source: from, target: to }: CopyWork,
  { stream: source }: CopySource,
  { stream: target }: CopyTarget,
): readonly string[] {
  const names = [from.connection, to.connection].map(name => `connection ${name}`);
  return isStream(record.method) && source && target ? [source.machine, target.machine] : names;
}

/** The error for a connection whose file was changed during a copy. */
const unable = (connection: string, what: string): CsiError =>
  new CsiError("unavailable", `connection "${connection}" cannot ${what}; restore its file`);

/** An error that no driver should throw counts as a fault of csimux. */
export const asCsiError = (error: unknown): CsiError =>
  error instanceof CsiError ? error : new CsiError("internal", String(error), { cause: error });

/** The error for the caller while the copy still exists: the code must make it retry, whatever the reason. */
export function retried(error: unknown): CsiError {
  const why = asCsiError(error);
  return isFinal(why) ? new CsiError("unavailable", why.message, { cause: error }) : why;
}

/**
 * Whether a failed attempt is the last one. A final error ends a copy:
 * - if its record does not agree with the source: nothing in it is trusted;
 * - if the source does not exist, which "not-found" means until the record was checked against the source (`isChecked`);
 * - while nothing has arrived: nothing is lost, and the claim gets the code;
 * - of a move: its operator gets the error, and the next pass continues;
 * - if it is "invalid-argument": no repetition copies such content.
 * Otherwise the end of a claim's copy would remove data that took hours to arrive, for a cause that a person can correct: a full pool, a
 * missing permission or key. It is tried again as long as the claim asks, and each answer names the cause. "not-found" after the check is not
 * judged here, because a removed snapshot of a volume is replaced by a new one. Pure.
 */
export function endsCopy(
  why: CsiError,
  { dirty, role }: Pick<CopyRecord, "dirty" | "role">,
  isChecked: boolean,
): boolean {
  if (!isFinal(why)) return false;
  if (why instanceof ChangedRecordError) return true;
  if (why.code === "not-found") return !isChecked;
  return !dirty || role === "move" || why.code === "invalid-argument";
}

/** Throws the error of the source that ends a copy with this record; others are for the next attempt. */
export const throwLast = (record: CopyRecord) => (error: unknown) => {
  if (endsCopy(asCsiError(error), record, false)) throw error;
};

/** One attempt of a pass: copies the content of a snapshot, or what is missing of it. */
export interface CopyAttempt {
  readonly work: CopyWork;
  readonly snapshot: SourceSnapshot;
  readonly lease: CopyLease;
  readonly stream: CopyByStream;
  /** Whether files that are in the target already are compared by content. */
  readonly compare: boolean;
  /** Knows which of them can have changed. */
  readonly files: PassFiles;
  /** Called when a file has been copied. */
  copied(): void;
  /** Replaces the target by an empty one. */
  emptyTarget(): Promise<void>;
  /** Gets all bytes of the pass that have arrived. */
  arrived(bytes: bigint): void;
}

/** Copies by the method of the record. Throws "unavailable" if an end lacks what that needs. */
export async function copyContent(
  attempt: CopyAttempt,
  copySource: CopySource,
  copyTarget: CopyTarget,
  call: Call,
): Promise<void> {
  const { target } = attempt.work;
  const { method } = attempt.lease.record;
  if (isStream(method)) return byStream(attempt, method, copySource, copyTarget, call);
  if (!copyTarget.folder) throw unable(target.connection, "take files");
  const folder = await copyTarget.folder(target.id, call);
  if (method === "restore") await byFilling(attempt, copySource, folder, call);
  else await byFiles(attempt, copySource, folder, call);
  // The record will say "ready", which outlives a loss of power: "finish" trusts it, and compares nothing.
  await copyTarget.flush?.(target.id, call);
}

async function byFiles(attempt: CopyAttempt, { tree: read }: CopySource, folder: string, call: Call): Promise<void> {
  const { work, snapshot, lease } = attempt;
  if (!read) throw unable(work.source.connection, "give files");
  const { stable } = snapshot;
  const { pass, frozen } = lease.record;
  const isStopped = frozen !== undefined && pass >= frozen;
  const copy = async (tree: ReadableTree) => {
    if (!work.dropAcls) await refuseAcls(tree, work.source.connection, call);
    await lease.write({ dirty: true });
    const progress = (bytes: bigint) => attempt.arrived(bytes);
    // The copy of a claim has one pass, and the files of a snapshot are compared anyway.
    const changed = stable || lease.record.role !== "move" ? "all" : await attempt.files.compared(tree, folder, call);
    const compare = attempt.compare ? changed : [];
    const files = { tree, folder, stable, stopped: isStopped, compare };
    await copyFiles({ ...files, progress, copied: () => attempt.copied() }, call);
  };
  await read(snapshot, call, copy, isStopped);
  if (!stable && !isStopped)
    call.log.info("the copied files are from different times, because the volume may have been in use");
}

/** Restores into an empty folder; the result of an interrupted attempt is removed first. */
async function byFilling(attempt: CopyAttempt, { fill }: CopySource, folder: string, call: Call): Promise<void> {
  const { work, snapshot, lease } = attempt;
  if (!fill) throw unable(work.source.connection, "write its snapshots into a folder");
  if (lease.record.dirty) await attempt.emptyTarget();
  await lease.write({ dirty: true });
  await fill(snapshot, folder, call);
}

async function byStream(
  attempt: CopyAttempt,
  method: "zfs-send" | "zfs-send-local",
  copySource: CopySource,
  copyTarget: CopyTarget,
  call: Call,
): Promise<void> {
  const { work, snapshot, lease } = attempt;
  // Only the holder ends what receives, and discards what has arrived. One that loses the lease after this can do that to the next holder's
  // stream at most, which is sent again.
  await lease.write({});
  const { record } = lease;
  if (!copySource.stream) throw unable(work.source.connection, "send streams");
  if (!copyTarget.stream) throw unable(work.target.connection, "receive streams");
  const total = (all: bigint, own: bigint) => (record.total > 0n && all > record.total ? own : all);
  // A stream that continues counts from zero again.
  const before = record.done;
  const ends = { source: copySource.stream, target: copyTarget.stream, id: work.target.id };
  const { basic } = await attempt.stream(
    {
      ...{ ...ends, snapshot, earlier: record.earlier, method, basic: record.basic },
      simplified: () => lease.write({ basic: true }),
      progress: bytes => attempt.arrived(total(before + bytes, bytes)),
    },
    call,
  );
  lease.set({ basic });
}

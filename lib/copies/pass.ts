import type { Call } from "../core/call.ts";
import type { CopySource, CopyTarget, ReadableTree, SourceSnapshot } from "../drivers/copying.ts";
import { type CopyByStream, type CopyWork, isStream, unable } from "./copy-work.ts";
import type { CopyLease } from "./lease.ts";
import { refuseAcls } from "./nfs4-acl.ts";
import { copyFiles } from "./rsync.ts";
import type { PassFiles } from "./unchanged-files.ts";

/** One attempt to copy the content of a snapshot, or what is missing of it. */
export interface CopyPass {
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
  again(): Promise<void>;
  /** Gets all bytes of the pass that have arrived. */
  arrived(bytes: bigint): void;
}

/** Copies by the way that the record names. Throws "unavailable" if an end lacks what that needs. */
export async function copyContent(
  pass: CopyPass,
  copySource: CopySource,
  copyTarget: CopyTarget,
  call: Call,
): Promise<void> {
  const { target } = pass.work;
  const { method } = pass.lease.record;
  if (isStream(method)) return byStream(pass, method, copySource, copyTarget, call);
  if (!copyTarget.folder) throw unable(target.connection, "take files");
  const folder = await copyTarget.folder(target.id, call);
  if (method === "restore") return byFilling(pass, copySource, folder, call);
  return byFiles(pass, copySource, folder, call);
}

async function byFiles(attempt: CopyPass, { tree: read }: CopySource, folder: string, call: Call): Promise<void> {
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
    await copyFiles({ tree, folder, stable, compare, progress, copied: () => attempt.copied() }, call);
  };
  await read(snapshot, call, copy, isStopped);
  if (!stable && !isStopped)
    call.log.info("the copied files are from different times, because the volume may have been in use");
}

/** Restores into an empty folder; the result of an interrupted attempt is removed first. */
async function byFilling(pass: CopyPass, { fill }: CopySource, folder: string, call: Call): Promise<void> {
  const { work, snapshot, lease } = pass;
  if (!fill) throw unable(work.source.connection, "write its snapshots into a folder");
  if (lease.record.dirty) await pass.again();
  await lease.write({ dirty: true });
  await fill(snapshot, folder, call);
}

async function byStream(
  pass: CopyPass,
  method: "zfs-send" | "zfs-send-local",
  copySource: CopySource,
  copyTarget: CopyTarget,
  call: Call,
): Promise<void> {
  const { work, snapshot, lease } = pass;
  await lease.write({}); // Only the owner ends what receives, and another process may be it by now.
  const { record } = lease;
  if (!copySource.stream) throw unable(work.source.connection, "send streams");
  if (!copyTarget.stream) throw unable(work.target.connection, "receive streams");
  const total = (all: bigint, own: bigint) => (record.total > 0n && all > record.total ? own : all);
  // A stream that continues counts from zero again.
  const before = record.done;
  const ends = { source: copySource.stream, target: copyTarget.stream, id: work.target.id };
  const { basic } = await pass.stream(
    {
      ...{ ...ends, snapshot, earlier: record.earlier, method, basic: record.basic },
      progress: bytes => pass.arrived(total(before + bytes, bytes)),
    },
    call,
  );
  lease.set({ basic });
}

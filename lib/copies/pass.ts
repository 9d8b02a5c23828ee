import type { Call } from "../core/call.ts";
import type { GivingAbility, Moment, ReadableTree, TakingAbility } from "../drivers/copying.ts";
import { type CopyByStream, type CopyWork, isStream, unable } from "./copy-work.ts";
import type { CopyLease } from "./lease.ts";
import { refuseAcls } from "./nfs4-acl.ts";
import { copyFiles } from "./rsync.ts";
import type { PassFiles } from "./unchanged-files.ts";

/** One attempt to copy the content of a moment, or what is missing of it. */
export interface CopyPass {
  readonly work: CopyWork;
  readonly moment: Moment;
  readonly lease: CopyLease;
  readonly stream: CopyByStream;
  /** Whether files that are in the landing already are compared by content. */
  readonly compare: boolean;
  /** Knows which of them can have changed. */
  readonly files: PassFiles;
  /** Called when a file has been copied. */
  copied(): void;
  /** Replaces the landing by an empty one. */
  again(): Promise<void>;
  /** Gets all bytes of the round that have arrived. */
  arrived(bytes: bigint): void;
}

/** Copies by the way that the record names. Throws "unavailable" if an end lacks what that needs. */
export async function copyContent(
  pass: CopyPass,
  giving: GivingAbility,
  taking: TakingAbility,
  call: Call,
): Promise<void> {
  const { target } = pass.work;
  const { way } = pass.lease.record;
  if (isStream(way)) return byStream(pass, way, giving, taking, call);
  if (!taking.folder) throw unable(target.connection, "take files");
  const folder = await taking.folder(target.id, call);
  if (way === "fill") return byFilling(pass, giving, folder, call);
  return byFiles(pass, giving, folder, call);
}

async function byFiles(pass: CopyPass, { tree: read }: GivingAbility, folder: string, call: Call): Promise<void> {
  const { work, moment, lease } = pass;
  if (!read) throw unable(work.source.connection, "give files");
  const { stable } = moment;
  const { round, frozen } = lease.record;
  const isStopped = frozen !== undefined && round >= frozen;
  const copy = async (tree: ReadableTree) => {
    if (!work.dropAcls) await refuseAcls(tree, work.source.connection, call);
    await lease.write({ dirty: true });
    const progress = (bytes: bigint) => pass.arrived(bytes);
    // The copy of a claim has one pass, and the files of a snapshot are compared anyway.
    const changed = stable || lease.record.role !== "move" ? "all" : await pass.files.compared(tree, folder, call);
    const compare = pass.compare ? changed : [];
    await copyFiles({ tree, folder, stable, compare, progress, copied: () => pass.copied() }, call);
  };
  await read(moment, call, copy, isStopped);
  if (!stable && !isStopped)
    call.log.info("the copied files are from different times, because the volume may have been in use");
}

/** Restores into an empty folder; the result of an interrupted attempt is removed first. */
async function byFilling(pass: CopyPass, { fill }: GivingAbility, folder: string, call: Call): Promise<void> {
  const { work, moment, lease } = pass;
  if (!fill) throw unable(work.source.connection, "write its snapshots into a folder");
  if (lease.record.dirty) await pass.again();
  await lease.write({ dirty: true });
  await fill(moment, folder, call);
}

async function byStream(
  pass: CopyPass,
  way: "stream" | "stream-here",
  giving: GivingAbility,
  taking: TakingAbility,
  call: Call,
): Promise<void> {
  const { work, moment, lease } = pass;
  await lease.write({}); // Only the owner ends what receives, and another process may be it by now.
  const { record } = lease;
  if (!giving.stream) throw unable(work.source.connection, "send streams");
  if (!taking.stream) throw unable(work.target.connection, "receive streams");
  const total = (all: bigint, own: bigint) => (record.total > 0n && all > record.total ? own : all);
  // A stream that continues counts from zero again.
  const before = record.done;
  const ends = { source: giving.stream, target: taking.stream, id: work.target.id };
  const { basic } = await pass.stream(
    {
      ...{ ...ends, moment, earlier: record.earlier, way, basic: record.basic },
      progress: bytes => pass.arrived(total(before + bytes, bytes)),
    },
    call,
  );
  lease.set({ basic });
}

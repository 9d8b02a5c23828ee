import type { Call } from "../../core/call.ts";
import { errnoOf } from "../../core/errors.ts";
import { type Files, unless } from "../../io/files.ts";
import { refuseMounts } from "./mounted.ts";
import type { OperationContext } from "./operation-context.ts";
import { removeTree } from "./tools.ts";

/** A tree cannot move to the work folder: no space, another file system, or another quota project (rename(2), xfs_quota(8)). */
export const immovable: readonly string[] = ["ENOSPC", "EDQUOT", "EXDEV"];

/** Whether a tree is no longer where it was. */
export async function isMoved(move: Promise<unknown>): Promise<boolean> {
  try {
    // A server that has moved it may find nothing when a request is repeated, because its answer was lost.
    await unless(move, "ENOENT");
    return true;
  } catch (error) {
    // Freeing space must not require space, and a removable tree must not stay forever.
    if (immovable.includes(errnoOf(error) ?? "")) return false;
    throw error;
  }
}

/** Removes a folder and everything in it. Throws "failed-precondition" if something is mounted in it. Succeeds if it is not there. */
export async function discard(context: OperationContext, path: string, call: Call): Promise<void> {
  if (await removeIfEmpty(context, path)) return;
  await refuseMounts(context, path);
  await removeTree(context, path, call);
}

/** Whether the folder is gone now, whatever the reason if it is not: content, a mount, its owner, or that it is a link. */
export async function removeIfEmpty({ files }: OperationContext, folder: string): Promise<boolean> {
  try {
    await files.removeFolder(folder);
    return true;
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === undefined) throw error;
    return errno === "ENOENT";
  }
}

/** Changes a file, if it exists. */
async function ifThere(files: Files, path: string, change: Promise<unknown>): Promise<void> {
  await unless(change, "ENOENT", "ENOTDIR").catch(async (cause: unknown) => {
    // The kernel checks for a read-only file system before it checks whether the file exists.
    if (errnoOf(cause) !== "EROFS" || (await files.entry(path)) !== undefined) throw cause;
  });
}

/** The record of a new tree, which its maker has written. */
export interface Claim {
  readonly file: string;
  /** Whether it is still the one that was written. */
  isStill(): Promise<boolean>;
}

/** A file cannot get the name of a folder, and unlink(2) removes none (rename(2)); servers may call the first EEXIST. */
const held: readonly string[] = ["EISDIR", "EEXIST", "EPERM"];

/** The name of a record that is being removed, or of an empty folder that keeps others from that. */
const aside = (record: string): string => `${record}~`;

/** Holds a record. False if something has the name of the hold. */
async function isHeld(files: Files, record: string): Promise<boolean> {
  try {
    await files.makeFolder(aside(record), 0o700);
    return true;
  } catch (error) {
    if (errnoOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** Runs `work` while no other controller removes the record. Undefined if another one removes it, or does the same. */
export async function holdingRecord<T>(files: Files, record: string, work: () => Promise<T>): Promise<T | undefined> {
  if (!(await isHeld(files, record))) {
    if ((await files.entry(aside(record))) !== "other") return undefined;
    // A removal has taken an earlier record and was perhaps killed then; if it continues, it leaves the present record where it is.
    await unless(files.removeFile(aside(record)), "ENOENT", ...held);
    if (!(await isHeld(files, record))) return undefined;
  }
  try {
    return await work();
  } finally {
    const release = () => files.removeFolder(aside(record));
    // One that stays nevertheless is removed together with the record.
    await release()
      .catch(release)
      .catch(() => undefined);
  }
}

/** What `dropRecord` must know about the tree of the record. */
interface TreeOfRecord {
  isThere(): Promise<boolean>;
  /** Takes away what others have built and not yet named: who holds the record is about to name it. */
  sweep(): Promise<unknown>;
}

/** Removes the record of a tree, unless the tree is there. Returns whether it is not. */
export async function dropRecord(files: Files, record: string, { isThere, sweep }: TreeOfRecord): Promise<boolean> {
  // Taken first: a record that another controller writes from now on is that of a tree that it has yet to make, or has made.
  const taken = aside(record);
  const unlessHeld = (change: () => Promise<unknown>) =>
    change().catch(async (cause: unknown) => {
      if (!held.includes(errnoOf(cause) ?? "")) throw cause;
      // It may have been released meanwhile.
      if ((await files.entry(taken)) === "folder") {
        await sweep();
        await unless(files.removeFolder(taken), "ENOENT");
      }
      await change();
    });
  await unlessHeld(() => ifThere(files, record, files.rename(record, taken)));
  if (!(await isThere())) {
    await unlessHeld(() => ifThere(files, taken, files.removeFile(taken)));
    return true;
  }
  await unless(files.link(taken, record), "ENOENT", "EEXIST").catch(async () => {
    // Not every file system has links.
    const isFree = (await files.entry(record)) === undefined;
    if (isFree && (await files.entry(taken)) === "other") await files.rename(taken, record);
  });
  await unless(files.removeFile(taken), "ENOENT", ...held);
  return false;
}

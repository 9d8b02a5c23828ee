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

/** Removes the record of a tree, unless the tree is there. Returns whether it is not. */
export async function dropRecord(files: Files, record: string, isThere: () => Promise<boolean>): Promise<boolean> {
  // Taken first: a record that another controller writes from now on is that of a tree that it has yet to make, or has made.
  const taken = `${record}~`;
  await ifThere(files, record, files.rename(record, taken));
  if (!(await isThere())) {
    await ifThere(files, taken, files.removeFile(taken));
    return true;
  }
  await unless(files.link(taken, record), "ENOENT", "EEXIST").catch(async () => {
    // Not every file system has links.
    if ((await files.entry(record)) === undefined) await files.rename(taken, record);
  });
  await unless(files.removeFile(taken), "ENOENT");
  return false;
}

import { lstat, mkdir, open, rmdir, unlink } from "node:fs/promises";
import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import { bounded, fileFailure } from "./files.ts";

/** The mode of folders that csimux creates below the kubelet's: access for root and its group. */
const folderMode = 0o750;

/**
 * Ensures that an unmounted path is a folder; creates it with its parents. Returns whether the last part was created.
 * Throws "failed-precondition" for anything else, also for a symbolic link: a mount on it would appear at its target.
 */
export async function ensureFolder(path: string, signal: AbortSignal): Promise<boolean> {
  const made = await bounded(
    mkdir(path, { mode: folderMode }).then(() => true, existing(path)),
    `creating ${path}`,
    signal,
  );
  if (made) return true;
  const stats = await bounded(lstat(path), `checking ${path}`, signal);
  if (stats.isDirectory()) return false;
  const what = stats.isSymbolicLink() ? "a symbolic link" : "not a folder";
  throw new CsiError("failed-precondition", `${path} is ${what}; nothing can be mounted there`);
}

/** Handles a failed mkdir: false for an existing entry; creates missing parents and retries. */
const existing =
  (path: string) =>
  async (cause: unknown): Promise<boolean> => {
    if (errnoOf(cause) === "EEXIST") return false;
    if (errnoOf(cause) !== "ENOENT") throw cause;
    return (await mkdir(path, { recursive: true, mode: folderMode })) !== undefined;
  };

/**
 * Ensures that an unmounted path in an existing folder is an empty file, to bind a device to. Returns whether it was
 * created. Throws "failed-precondition" for anything else.
 */
export async function ensureFile(path: string, signal: AbortSignal): Promise<boolean> {
  const make = async (): Promise<boolean> => {
    await (await open(path, "wx", 0o600)).close();
    return true;
  };
  const none = (cause: unknown): boolean => {
    if (errnoOf(cause) === "EEXIST") return false;
    throw cause;
  };
  if (await bounded(make().catch(none), `creating ${path}`, signal)) return true;
  const stats = await bounded(lstat(path), `checking ${path}`, signal);
  if (stats.isFile() && stats.size === 0) return false;
  throw new CsiError("failed-precondition", `${path} is not an empty file; no device can be bound to it`);
}

/**
 * Removes the empty folder or empty file at an unmounted path; succeeds if there is none. Keeps anything that holds
 * data: throws "failed-precondition" for a folder that is not empty, a file with content, or a link.
 */
export async function removeMountPoint(path: string, signal: AbortSignal): Promise<void> {
  await bounded(remove(path), `removing ${path}`, signal);
}

async function remove(path: string): Promise<void> {
  try {
    await rmdir(path);
  } catch (cause) {
    if (errnoOf(cause) === "ENOENT") return;
    if (errnoOf(cause) === "ENOTDIR") return await removeFile(path);
    if (errnoOf(cause) === "ENOTEMPTY" || errnoOf(cause) === "EEXIST") {
      throw new CsiError(
        "failed-precondition",
        `${path} is unmounted but not empty, so it was not removed; move its content away`,
      );
    }
    throw fileFailure(cause, `removing ${path}`);
  }
}

async function removeFile(path: string): Promise<void> {
  const stats = await lstat(path).catch((cause: unknown) => {
    if (errnoOf(cause) === "ENOENT" || errnoOf(cause) === "ENOTDIR") return undefined;
    throw cause;
  });
  if (!stats) return;
  if (stats.isFile() && stats.size === 0) return await unlink(path);
  throw new CsiError("failed-precondition", `${path} was not created by csimux, so it was not removed`);
}
